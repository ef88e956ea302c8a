# SPDX-License-Identifier: Apache-2.0
"""A bus of sixteen partitions of which partition 3 fails on request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus.exceptions import PartitionUnavailableError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from durable_bus import Bus
    from oxbus import ServiceBusReceivedMessage

ALL = range(16)
BAD = 3
GOOD = [partition_id for partition_id in ALL if partition_id != BAD]
LIVENESS_SECONDS = 60
KEYS = {
    partition_id: next(key for key in (f"key-{n}" for n in range(10_000)) if oxbus.partition_id(key) == partition_id)
    for partition_id in ALL
}
"""One key for each partition."""

STOPPING = ("unavailable", "eio-write", "eio-fsync")
"""Faults after which a partition rejects all calls until it is healed."""

UNACKNOWLEDGED = "never acknowledged"


def fail_partition(bus: Bus, fault: str) -> None:
    """Start a fault on the bad partition, and make the partition detect it by a send that is not acknowledged."""
    inject_fault(bus.namespace, BAD, fault)
    with pytest.raises(PartitionUnavailableError):
        bus.send(UNACKNOWLEDGED, partition_key=KEYS[BAD])
    assert status(bus) == "faulted"


def status(bus: Bus, partition_id: int = BAD) -> str:
    """The health of a partition."""
    return bus.namespace.partition_health()[partition_id].status


def heal_partition(bus: Bus, partition_id: int = BAD) -> None:
    """Heal a partition and wait until it is healthy."""
    heal(bus.namespace, partition_id)
    end = time.monotonic() + LIVENESS_SECONDS
    while status(bus, partition_id) != "healthy":
        assert time.monotonic() < end, bus.namespace.partition_health()[partition_id].reason
        time.sleep(0.01)


def in_bad(messages: list[ServiceBusReceivedMessage]) -> list[ServiceBusReceivedMessage]:
    """The messages of the bad partition."""
    return [message for message in messages if message.partition_id == BAD]
