# SPDX-License-Identifier: Apache-2.0
"""What the broker says about a queue or subscription, and its sequence numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oxbus._oxbus import BulkClient

_COUNTER_BITS = 48
"""Bits of a sequence number below its partition (docs/behaviour.md B-103)."""


@dataclass(frozen=True)
class Entity:
    """A queue or subscription as it is now."""

    path: str
    partitions: int
    incarnation: str
    """Another one after the entity was deleted and made again."""
    starts: tuple[int, ...]
    """Of each partition, the counter of its first message, or where the first will be."""
    ends: tuple[int, ...]
    """Of each partition, the counter that its next message gets."""
    active_messages: int


def describe(client: BulkClient, path: str) -> Entity:
    """Ask the broker.

    Raises:
        MessagingEntityNotFoundError: There is no such entity.
        ServiceBusConnectionError: The broker cannot be reached.
        ServiceBusAuthenticationError: The broker does not accept the key.
    """
    found = client.describe(path)
    return Entity(
        path=path,
        partitions=found["partitions"],
        incarnation=str(found["incarnation"]),
        starts=tuple(counter_of(start) for start in found["starts"]),
        ends=tuple(counter_of(end) for end in found["ends"]),
        active_messages=found["active_messages"],
    )


def partitions_of(client: BulkClient, path: str) -> int:
    """Ask the broker how many partitions a queue or topic has; for this the right to send is enough.

    Raises:
        MessagingEntityNotFoundError: There is no such entity.
        ServiceBusConnectionError: The broker cannot be reached.
        ServiceBusAuthenticationError: The broker does not accept the key.
    """
    return int(client.describe(path)["partitions"])


def counter_of(sequence_number: int) -> int:
    """Place of a message in its partition."""
    return sequence_number & ((1 << _COUNTER_BITS) - 1)


def sequence_number(partition: int, counter: int) -> int:
    """Number of a message."""
    return partition << _COUNTER_BITS | counter


def partition_of(number: int) -> int:
    """Partition of a message of a partitioned entity; 0 in others."""
    return number >> _COUNTER_BITS
