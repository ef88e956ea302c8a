# SPDX-License-Identifier: Apache-2.0
"""Message counts of an entity and of its partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCountDetails:
    """How many messages an entity holds, by state.

    Attributes:
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in the dead-letter queue.
        scheduled_message_count: Messages that are scheduled for later.
        transfer_dead_letter_message_count: Always 0: a message that cannot be forwarded is dead-lettered.
        transfer_message_count: Messages that wait to be forwarded.

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
        partition_id: The partition; None for a queue that is not partitioned.
        available: Whether its store answered; otherwise the counts are 0.
        size_in_bytes: Size of its messages, in bytes.
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in its part of the dead-letter queue.
        scheduled_message_count: Messages that are scheduled for later.
        transfer_message_count: Messages that wait to be forwarded.
        transfer_dead_letter_message_count: Always 0: a message that cannot be forwarded is dead-lettered.
        total_message_count: All messages.
        locked_message_count: Active messages that a receiver has locked.
        deferred_message_count: Active messages that were deferred.

    Source: docs/behaviour.md B-097, B-389 to B-394.
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
