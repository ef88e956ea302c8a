# SPDX-License-Identifier: Apache-2.0
"""The properties of topics."""

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
    """The options of a topic: change them and pass the object to `update_topic`. Also usable like a mapping.

    `create_topic`, `get_topic` and `list_topics` return it.

    Attributes:
        name: The name, with the letter case of its creation.
        default_message_time_to_live: Time to live of messages that set none, and the upper bound for the others.
        max_size_in_megabytes: Largest size of each partition, in megabytes.
        requires_duplicate_detection: Whether messages with an id seen before are dropped; fixed at creation.
        duplicate_detection_history_time_window: How long message ids are remembered.
        enable_batched_operations: Stored and returned; has no effect.
        size_in_bytes: Size of its messages when it was read, in bytes; read only.
        filtering_messages_before_publishing: Whether a message that no rule selects is rejected.
        authorization_rules: Keys and rights for this topic alone.
        status: Which operations the topic allows.
        support_ordering: Whether subscriptions get messages in the order in which they were sent.
        auto_delete_on_idle: The topic is deleted after this much time without use.
        enable_partitioning: Whether the topic and its subscriptions use all partitions of the namespace; fixed at
            creation.
        availability_status: Whether all partitions are in service; read only.
        enable_express: Stored and returned; has no effect.
        user_metadata: Free text, at most 1,024 characters.
        max_message_size_in_kilobytes: Largest message, in kilobytes.
        total_max_size_in_megabytes: Largest size of all partitions together, in megabytes; read only, None from
            a server.

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
    """The counts of a topic, summed over its partitions. Copies of its messages count for the subscriptions.

    Attributes:
        name: The name of the topic.
        created_at_utc: When it was created.
        updated_at_utc: When its options were last changed.
        accessed_at_utc: When it was last sent to; the first day of year 1 before that.
        size_in_bytes: Size of its messages, in bytes.
        subscription_count: Number of subscriptions.
        sql_filter_count: Rules with a SQL filter in all subscriptions, true and false filters included.
        correlation_filter_count: Rules with a correlation filter in all subscriptions; both None if not reported.
        scheduled_message_count: Scheduled messages; subscriptions get them when they become available.
        partitions: The counts of each partition; empty from a server.
        availability_status: Limited when a partition did not answer; the sums then lack it.

    Source: docs/behaviour.md B-241, B-271, B-389, B-392.
    """

    name: str
    created_at_utc: datetime
    updated_at_utc: datetime
    accessed_at_utc: datetime
    size_in_bytes: int
    subscription_count: int
    sql_filter_count: int | None
    correlation_filter_count: int | None
    scheduled_message_count: int
    partitions: tuple[PartitionRuntimeProperties, ...]
    availability_status: EntityAvailabilityStatus
