# SPDX-License-Identifier: Apache-2.0
"""The properties of queues."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from oxbus._field_mapping import MutableFieldMapping
from oxbus._options import explains_options
from oxbus.management._counts import MessageCountDetails

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._counts import PartitionRuntimeProperties
    from oxbus.management._enums import EntityAvailabilityStatus, EntityStatus


@explains_options
@dataclass(slots=True, eq=False)
class QueueProperties(MutableFieldMapping):
    """The options of a queue: change them and pass the object to `update_queue`. Also usable like a mapping.

    `create_queue`, `get_queue` and `list_queues` return it.

    Attributes:
        name: The name, with the letter case of its creation.
        authorization_rules: Keys and rights for this queue alone.
        auto_delete_on_idle: The queue is deleted after this much time without use.
        dead_lettering_on_message_expiration: Expired messages move to the dead-letter queue instead of being dropped.
        default_message_time_to_live: Time to live of messages that set none, and the upper bound for the others.
        duplicate_detection_history_time_window: How long message ids are remembered.
        availability_status: Whether all partitions are in service; read only.
        enable_batched_operations: Stored and returned; has no effect.
        enable_express: Stored and returned; has no effect.
        enable_partitioning: Whether the queue uses all partitions of the namespace; fixed at creation.
        lock_duration: How long a received message stays locked.
        max_delivery_count: Deliveries before a message moves to the dead-letter queue.
        max_size_in_megabytes: Largest size of each partition, in megabytes.
        requires_duplicate_detection: Whether messages with an id seen before are dropped; fixed at creation.
        requires_session: Whether the queue is received by session; fixed at creation.
        status: Which operations the queue allows.
        forward_to: The entity that its messages are moved to.
        user_metadata: Free text, at most 1,024 characters.
        forward_dead_lettered_messages_to: The entity that its dead-lettered messages are moved to.
        max_message_size_in_kilobytes: Largest message, in kilobytes.
        expire_whole_sessions: Whether one expired message of a session expires all its ready messages;
            None from a server.
        total_max_size_in_megabytes: Largest size of all partitions together, in megabytes; read only, None from
            a server.

    Source: docs/behaviour.md B-022 to B-033.
    """

    name: str
    _: KW_ONLY
    authorization_rules: list[AuthorizationRule] | None
    auto_delete_on_idle: timedelta | str | None
    dead_lettering_on_message_expiration: bool | None
    default_message_time_to_live: timedelta | str | None
    duplicate_detection_history_time_window: timedelta | str | None
    availability_status: str | EntityAvailabilityStatus | None
    enable_batched_operations: bool | None
    enable_express: bool | None
    enable_partitioning: bool | None
    lock_duration: timedelta | str | None
    max_delivery_count: int | None
    max_size_in_megabytes: int | None
    requires_duplicate_detection: bool | None
    requires_session: bool | None
    status: str | EntityStatus | None
    forward_to: str | None
    user_metadata: str | None
    forward_dead_lettered_messages_to: str | None
    max_message_size_in_kilobytes: int | None
    expire_whole_sessions: bool | None = None
    total_max_size_in_megabytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRuntimeProperties:
    """The message counts of a queue, summed over its partitions.

    Attributes:
        name: The name of the queue.
        created_at_utc: When it was created.
        updated_at_utc: When its options were last changed.
        accessed_at_utc: When it was last sent to or received from; the first day of year 1 before that.
        size_in_bytes: Size of its messages, in bytes.
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in its dead-letter queue.
        scheduled_message_count: Messages that are scheduled for later.
        transfer_message_count: Messages that wait to be forwarded.
        transfer_dead_letter_message_count: Always 0: a message that cannot be forwarded is dead-lettered.
        total_message_count: All messages.
        locked_message_count: Active messages that a receiver has locked; None from a server.
        deferred_message_count: Active messages that were deferred; None from a server.
        partitions: The same counts for each partition; empty from a server.
        availability_status: Limited when a partition did not answer; the sums then lack it.

    Source: docs/behaviour.md B-097, B-389 to B-394.
    """

    name: str
    created_at_utc: datetime
    updated_at_utc: datetime
    accessed_at_utc: datetime
    size_in_bytes: int
    active_message_count: int
    dead_letter_message_count: int
    scheduled_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    total_message_count: int
    locked_message_count: int | None
    deferred_message_count: int | None
    partitions: tuple[PartitionRuntimeProperties, ...]
    availability_status: EntityAvailabilityStatus

    @property
    def message_count_details(self) -> MessageCountDetails:
        """The counts that the service reports, as one value. Raises nothing."""
        return MessageCountDetails(
            active_message_count=self.active_message_count,
            dead_letter_message_count=self.dead_letter_message_count,
            scheduled_message_count=self.scheduled_message_count,
            transfer_dead_letter_message_count=self.transfer_dead_letter_message_count,
            transfer_message_count=self.transfer_message_count,
        )
