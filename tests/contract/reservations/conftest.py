# SPDX-License-Identifier: Apache-2.0
"""Fixtures for reservation tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from reserving import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusSender

pytest.importorskip("pyarrow")


@pytest.fixture
def send(sender: ServiceBusSender) -> Callable[..., None]:
    """Send that many numbered messages, one per call, so that they spread over the partitions."""

    def send(count: int, first: int = 0, **options: Any) -> None:
        for number in range(first, first + count):
            sender.send_messages(ServiceBusMessage(f"{number:04}", **options))

    return send


@pytest.fixture
def make_consumer(namespace: Namespace, queue_name: str) -> Callable[..., Consumer]:
    """Acquire a consumer of the queue."""

    def make(name: str = "c", entity: str | None = None, start: str = "earliest") -> Consumer:
        return Consumer(namespace, entity or queue_name, name, start)

    return make


@pytest.fixture
def consumer(make_consumer: Callable[..., Consumer]) -> Consumer:
    """A consumer of the queue."""
    return make_consumer()
