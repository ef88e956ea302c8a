# SPDX-License-Identifier: Apache-2.0
"""What the administration client shows and takes of a topic."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from oxbus._field_mapping import MutableFieldMapping
from oxbus._options import explains_options

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._counts import PartitionRuntimeProperties
    from oxbus.management._enums import EntityAvailabilityStatus, EntityStatus


@explains_options
@dataclass(slots=True, eq=False)
class TopicProperties(MutableFieldMapping):
    """The options of a topic: change them, then give them to `update_topic`; also usable like a mapping.

    Get one from `create_topic`, `get_topic` or `list_topics`.

    Attributes:
        name: The name, with the casing of its creation.
        default_message_time_to_live: For messages without a time to live of their own, and the most for the others.
        max_size_in_megabytes: Most megabytes per partition.
        requires_duplicate_detection: Whether message ids that were seen are dropped; fixed at creation.
        duplicate_detection_history_time_window: How long message ids are remembered.
        enable_batched_operations: Kept and shown; has no effect here.
        size_in_bytes: Bytes of its messages when it was read; read only.
        filtering_messages_before_publishing: Whether a message that no rule selects is refused.
        authorization_rules: Rights on this topic alone.
        status: What the topic lets through.
        support_ordering: Whether messages reach the subscriptions in the order in which they were sent.
        auto_delete_on_idle: The topic is deleted after this long without use.
        enable_partitioning: Whether topic and subscriptions are spread over the partitions of the namespace; fixed at
            creation.
        availability_status: Whether all partitions can be reached; read only.
        enable_express: Kept and shown; has no effect here.
        user_metadata: A text of your own, up to 1,024 characters.
        max_message_size_in_kilobytes: The largest message.
        total_max_size_in_megabytes: Most megabytes in all its partitions together; read only.

    Source: docs/behaviour.md B-009, B-023, B-025 to B-033.
    """

    name: str
    _: KW_ONLY
    default_message_time_to_live: timedelta | str | None
    max_size_in_megabytes: int | None
    requires_duplicate_detection: bool | None
    duplicate_detection_history_time_window: timedelta | str | None
    enable_batched_operations: bool | None
    size_in_bytes: int | None
    filtering_messages_before_publishing: bool | None
    authorization_rules: list[AuthorizationRule] | None
    status: str | EntityStatus | None
    support_ordering: bool | None
    auto_delete_on_idle: timedelta | str | None
    enable_partitioning: bool | None
    availability_status: str | EntityAvailabilityStatus | None
    enable_express: bool | None
    user_metadata: str | None
    max_message_size_in_kilobytes: int | None
    total_max_size_in_megabytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRuntimeProperties:
    """What a topic holds now, summed over its partitions. The copies of its messages are its subscriptions'.

    Attributes:
        name: The name of the topic.
        created_at_utc: When it was created.
        updated_at_utc: When its options were last changed.
        accessed_at_utc: When it was last sent to; the first day of year 1 before that.
        size_in_bytes: Bytes of its messages.
        subscription_count: Its subscriptions.
        sql_filter_count: Rules with a SQL filter in all its subscriptions, the true and false ones included.
        correlation_filter_count: Rules with a correlation filter in all its subscriptions.
        scheduled_message_count: Messages that wait for their time; subscriptions see them when it has come.
        partitions: The counts of each partition.
        availability_status: Limited when a partition could not be asked; the sums then lack it.

    Source: docs/behaviour.md B-241, B-271, B-389, B-392.
    """

    name: str
    created_at_utc: datetime
    updated_at_utc: datetime
    accessed_at_utc: datetime
    size_in_bytes: int
    subscription_count: int
    sql_filter_count: int
    correlation_filter_count: int
    scheduled_message_count: int
    partitions: tuple[PartitionRuntimeProperties, ...]
    availability_status: EntityAvailabilityStatus
