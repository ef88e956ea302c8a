# SPDX-License-Identifier: Apache-2.0
"""The broker's description of a queue or subscription, and its sequence numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oxbus._oxbus import BulkClient

_COUNTER_BITS = 48
"""Bits of a sequence number below its partition (docs/behaviour.md B-103)."""


@dataclass(frozen=True)
class Entity:
    """The current state of a queue or subscription."""

    path: str
    partitions: int
    incarnation: str
    """Changes when the entity is deleted and created again."""
    starts: tuple[int, ...]
    """By partition: the counter of its first message, existing or future."""
    ends: tuple[int, ...]
    """By partition: the counter of its next message."""
    active_messages: int
    active_by_partition: tuple[int, ...]
    dead_letter_messages: int
    oldest_age_seconds: float | None
    """Of the oldest active message. None without messages."""
    staged_bytes: int
    """Of the whole namespace: rows that tasks have staged and no commit has published."""
    requires_session: bool


def describe(client: BulkClient, path: str) -> Entity:
    """Ask the broker for the description of an entity.

    Raises:
        MessagingEntityNotFoundError: The entity does not exist.
        ServiceBusConnectionError: The broker cannot be reached.
        ServiceBusAuthenticationError: The broker rejects the key.
    """
    description = client.describe(path)
    return Entity(
        path=path,
        partitions=description["partitions"],
        incarnation=str(description["incarnation"]),
        starts=tuple(counter_of(start) for start in description["starts"]),
        ends=tuple(counter_of(end) for end in description["ends"]),
        active_messages=description["active_messages"],
        active_by_partition=tuple(description["active_by_partition"]),
        dead_letter_messages=description["dead_letter_messages"],
        oldest_age_seconds=None if description["oldest_age_ms"] is None else description["oldest_age_ms"] / 1000,
        staged_bytes=description["staged_bytes"],
        requires_session=description["requires_session"] and not path.lower().endswith("/$deadletterqueue"),
    )


def partitions_of(client: BulkClient, path: str) -> int:
    """Ask the broker for the number of partitions of a queue or topic; the Send right suffices.

    Raises:
        MessagingEntityNotFoundError: The entity does not exist.
        ServiceBusConnectionError: The broker cannot be reached.
        ServiceBusAuthenticationError: The broker rejects the key.
    """
    return int(client.describe(path)["partitions"])


def counter_of(sequence_number: int) -> int:
    """Return the position of a message in its partition."""
    return sequence_number & ((1 << _COUNTER_BITS) - 1)


def sequence_number(partition: int, counter: int) -> int:
    """Return the sequence number of a message."""
    return partition << _COUNTER_BITS | counter


def partition_of(number: int) -> int:
    """Return the partition of a message of a partitioned entity; 0 in others."""
    return number >> _COUNTER_BITS
