# SPDX-License-Identifier: Apache-2.0
"""Helpers of the transaction tests."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import ServiceBusReceivedMessage, Transaction


KEY = "key-a"


VERBS = ("complete", "abandon", "defer", "dead_letter")


LOCK_SECONDS = 60


MINUTES = 60


def message(body: str = "m", key: str | None = KEY, **options: Any) -> ServiceBusMessage:
    """A message with a key."""
    return ServiceBusMessage(body, partition_key=key, **options)


def with_property(body: str, name: str, value: str) -> ServiceBusMessage:
    """A message with one property."""
    properties: dict[str, Any] = {name: value}
    return ServiceBusMessage(body, **properties)


@contextlib.contextmanager
def undone(client: ServiceBusClient, **options: Any) -> Iterator[Transaction]:
    """A transaction that an exception rolls back."""
    with pytest.raises(KeyError), client.transaction(**options) as txn:  # noqa: PT012 -- it is raised at the end
        yield txn
        raise KeyError


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies, in the order of the messages."""
    return [str(each) for each in messages]
