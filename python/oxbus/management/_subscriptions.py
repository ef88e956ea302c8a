# SPDX-License-Identifier: Apache-2.0
"""What the administration client shows and takes of a subscription."""

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
    """The options of a subscription: change them, then give them to `update_subscription`; also usable like a mapping.

    Get one from `create_subscription`, `get_subscription` or `list_subscriptions`.

    Attributes:
        name: The name within its topic, with the casing of its creation.
        lock_duration: How long a received message stays locked.
        requires_session: Whether the subscription is read by sessions; fixed at creation.
        default_message_time_to_live: As for the topic; the shorter of the two holds.
        dead_lettering_on_message_expiration: Expired messages go to the dead-letter queue instead of vanishing.
        dead_lettering_on_filter_evaluation_exceptions: A message on which a rule fails goes to the dead-letter queue
            instead of vanishing.
        max_delivery_count: Deliveries before a message goes to the dead-letter queue.
        enable_batched_operations: Kept and shown; has no effect here.
        status: What the subscription lets through.
        forward_to: The entity that its messages are moved to.
        user_metadata: A text of your own, up to 1,024 characters.
        forward_dead_lettered_messages_to: The entity that its dead-lettered messages are moved to.
        auto_delete_on_idle: The subscription is deleted after this long without use.
        availability_status: Whether all partitions can be reached; read only.

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
    """What a subscription holds now, summed over its partitions. Scheduled messages are the topic's.

    Attributes:
        name: The name of the subscription.
        topic_name: The name of its topic.
        created_at_utc: When it was created.
        updated_at_utc: When its options were last changed.
        accessed_at_utc: When it was last received from; the first day of year 1 before that.
        active_message_count: Messages that are ready, locked or deferred.
        dead_letter_message_count: Messages in its dead-letter queue.
        transfer_message_count: Messages that wait to be forwarded.
        transfer_dead_letter_message_count: Always 0: what cannot be forwarded is dead-lettered.
        total_message_count: All of them.
        locked_message_count: Those of the active ones that a receiver holds.
        deferred_message_count: Those of the active ones that were deferred.
        partitions: The same counts for each partition.
        availability_status: Limited when a partition could not be asked; the sums then lack it.

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
    locked_message_count: int
    deferred_message_count: int
    partitions: tuple[PartitionRuntimeProperties, ...]
    availability_status: EntityAvailabilityStatus
