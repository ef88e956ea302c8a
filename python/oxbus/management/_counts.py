# SPDX-License-Identifier: Apache-2.0
"""Counts of messages: of an entity as one value, and of one of its partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCountDetails:
    """How many messages an entity holds, by where they stand.

    Source: docs/behaviour.md B-389 to B-391.
    """

    active_message_count: int | None = None
    dead_letter_message_count: int | None = None
    scheduled_message_count: int | None = None
    transfer_dead_letter_message_count: int | None = None
    transfer_message_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRuntimeProperties:
    """The counts of one partition of an entity.

    Attributes:
        partition_id: The partition; None for the one place of a queue that is not partitioned.
        available: Whether it could be asked; its counts are 0 otherwise.
        size_in_bytes: Bytes of its messages.
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in its part of the dead-letter queue.
        scheduled_message_count: Messages that wait for their time.
        transfer_message_count: Messages that wait to be forwarded.
        transfer_dead_letter_message_count: Always 0: what cannot be forwarded is dead-lettered.
        total_message_count: All of them.
        locked_message_count: Those of the active ones that a receiver holds.
        deferred_message_count: Those of the active ones that were deferred.
    """

    partition_id: int | None
    available: bool
    size_in_bytes: int
    active_message_count: int
    dead_letter_message_count: int
    scheduled_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    total_message_count: int
    locked_message_count: int
    deferred_message_count: int
