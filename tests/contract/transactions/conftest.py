# SPDX-License-Identifier: Apache-2.0
"""Fixtures for transaction tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import oxbus
import pytest
from transacting import message

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient


@pytest.fixture
def locked(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> list[ServiceBusReceivedMessage]:
    """Five messages with one key, locked."""
    for number in range(5):
        sender.send_messages(message(f"old {number}"))
    return drain(receiver)


@pytest.fixture
def two_keys(key_in: Callable[..., str]) -> tuple[str, str]:
    """Two keys of one partition."""
    first = key_in(3)
    candidates = (f"other-{number}" for number in range(10_000))
    return first, next(key for key in candidates if oxbus.partition_id(key) == 3)


@pytest.fixture
def neighbours(admin: ServiceBusAdministrationClient, partitioned: bool) -> tuple[str, str]:
    """Two queues that a transaction can span: partitioned ones, or plain ones in one partition."""
    names = ["first"] + [f"second{number}" for number in range(1000)]
    home = oxbus.partition_id("first")
    second = next(name for name in names[1:] if oxbus.partition_id(name) == home)
    for name in ("first", second):
        admin.create_queue(name, enable_partitioning=partitioned)
    return "first", second
