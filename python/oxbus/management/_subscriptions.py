# SPDX-License-Identifier: Apache-2.0
"""The properties of subscriptions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from oxbus._field_mapping import MutableFieldMapping
from oxbus._options import explains_options

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from oxbus.management._counts import PartitionRuntimeProperties
    from oxbus.management._enums import EntityAvailabilityStatus, EntityStatus


@explains_options
@dataclass(slots=True, eq=False)
class SubscriptionProperties(MutableFieldMapping):
    """The options of a subscription: change them and pass the object to `update_subscription`.

    Also usable like a mapping. `create_subscription`, `get_subscription` and `list_subscriptions` return it.

    Attributes:
        name: The name within its topic, with the letter case of its creation.
        lock_duration: How long a received message stays locked.
        requires_session: Whether the subscription is received by session; fixed at creation.
        default_message_time_to_live: As for the topic; the shorter of the two applies.
        dead_lettering_on_message_expiration: Expired messages move to the dead-letter queue instead of being dropped.
        dead_lettering_on_filter_evaluation_exceptions: A message on which a rule fails is dead-lettered instead of
            being dropped.
        max_delivery_count: Deliveries before a message moves to the dead-letter queue.
        enable_batched_operations: Stored and returned; has no effect.
        status: Which operations the subscription allows.
        forward_to: The entity that its messages are moved to.
        user_metadata: Free text, at most 1,024 characters.
        forward_dead_lettered_messages_to: The entity that its dead-lettered messages are moved to.
        auto_delete_on_idle: The subscription is deleted after this much time without use.
        availability_status: Whether all partitions are in service; read only.

    Source: docs/behaviour.md B-024 to B-031, B-248, B-358.
    """

    name: str
    _: KW_ONLY
    lock_duration: timedelta | str | None
    requires_session: bool | None
    default_message_time_to_live: timedelta | str | None
    dead_lettering_on_message_expiration: bool | None
    dead_lettering_on_filter_evaluation_exceptions: bool | None
    max_delivery_count: int | None
    enable_batched_operations: bool | None
    status: str | EntityStatus | None
    forward_to: str | None
    user_metadata: str | None
    forward_dead_lettered_messages_to: str | None
    auto_delete_on_idle: timedelta | str | None
    availability_status: str | EntityAvailabilityStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRuntimeProperties:
    """The message counts of a subscription, summed over its partitions. Scheduled messages count for the topic.

    Attributes:
        name: The name of the subscription.
        topic_name: The name of its topic.
        created_at_utc: When it was created.
        updated_at_utc: When its options were last changed.
        accessed_at_utc: When it was last received from; the first day of year 1 before that.
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in its dead-letter queue.
        transfer_message_count: Messages that wait to be forwarded.
        transfer_dead_letter_message_count: Always 0: a message that cannot be forwarded is dead-lettered.
        total_message_count: All messages.
        locked_message_count: Active messages that a receiver has locked; None from a server.
        deferred_message_count: Active messages that were deferred; None from a server.
        partitions: The same counts for each partition; empty from a server.
        availability_status: Limited when a partition did not answer; the sums then lack it.

    Source: docs/behaviour.md B-389 to B-394.
    """

    name: str
    topic_name: str
    created_at_utc: datetime
    updated_at_utc: datetime
    accessed_at_utc: datetime
    active_message_count: int
    dead_letter_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    total_message_count: int
    locked_message_count: int | None
    deferred_message_count: int | None
    partitions: tuple[PartitionRuntimeProperties, ...]
    availability_status: EntityAvailabilityStatus
