# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, updating, deleting and listing topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._paging import ItemPaged
from oxbus.management._topics import TopicProperties, TopicRuntimeProperties
from oxbus.management._translation import native_options, property_values, required_text, runtime_values, with_changes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._enums import EntityStatus
    from oxbus.management._transport import AdministrationTransport

_FIXED = ("name", "availability_status", "size_in_bytes", "total_max_size_in_megabytes")
"""Attributes of `TopicProperties` that an update cannot change."""


class TopicCalls:
    """The topic operations of the administration client."""

    _transport: AdministrationTransport

    def create_topic(
        self,
        topic_name: str,
        *,
        default_message_time_to_live: timedelta | str | None = None,
        max_size_in_megabytes: int | None = None,
        requires_duplicate_detection: bool | None = None,
        duplicate_detection_history_time_window: timedelta | str | None = None,
        enable_batched_operations: bool | None = None,
        size_in_bytes: int | None = None,
        filtering_messages_before_publishing: bool | None = None,
        authorization_rules: list[AuthorizationRule] | None = None,
        support_ordering: bool | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        enable_partitioning: bool | None = None,
        enable_express: bool | None = None,
        user_metadata: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        status: str | EntityStatus | None = None,
    ) -> TopicProperties:
        """Create a topic. It drops messages until it has a subscription.

        An option that is None takes its default. Durations are a `timedelta` or ISO 8601 text such as ``"PT1M"``.

        Args:
            topic_name: Up to 260 letters, digits and ``. - _ /``. Letter case is kept and ignored in comparisons.
                Queues and topics share their names.
            default_message_time_to_live: Time to live of messages that set none, and the upper bound for the others.
                Default: no limit.
            max_size_in_megabytes: Largest size of each partition, in megabytes.
            requires_duplicate_detection: Drop a message whose id was seen before; fixed at creation. Default False.
            duplicate_detection_history_time_window: How long message ids are remembered. Default 10 minutes.
            enable_batched_operations: Stored and returned; has no effect. Default True.
            size_in_bytes: Ignored: the size is counted, in bytes.
            filtering_messages_before_publishing: Reject a message that no rule selects. Default False.
            authorization_rules: Keys and rights for this topic when it is accessed through a server; in-process calls
                are not checked. A missing key is generated.
            support_ordering: Deliver messages to the subscriptions in the order in which they were sent.
            auto_delete_on_idle: Delete the topic with its messages after this much time without use, at least five
                minutes. Default: never.
            enable_partitioning: Spread the topic and its subscriptions over all partitions of the namespace. Default
                False.
            enable_express: Stored and returned; has no effect. Default False.
            user_metadata: Free text, at most 1,024 characters.
            max_message_size_in_kilobytes: Largest message, in kilobytes.
            status: Which operations the topic allows. Default active.

        Returns:
            The options of the new topic, with defaults filled in.

        Raises:
            MessagingEntityAlreadyExistsError: An entity of that name exists.
            InvalidOperationError: An option is not available in this version or tier.
            ServiceBusQuotaExceededError: The namespace has as many entities as the tier allows.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: An argument has the wrong type.
            ValueError: The name or an option is out of its range, or the namespace is closed.

        Source: docs/behaviour.md B-008, B-016 to B-032, B-096.
        """
        del size_in_bytes
        options = {
            "default_message_time_to_live": default_message_time_to_live,
            "max_size_in_megabytes": max_size_in_megabytes,
            "requires_duplicate_detection": requires_duplicate_detection,
            "duplicate_detection_history_time_window": duplicate_detection_history_time_window,
            "enable_batched_operations": enable_batched_operations,
            "filtering_messages_before_publishing": filtering_messages_before_publishing,
            "authorization_rules": authorization_rules,
            "support_ordering": support_ordering,
            "auto_delete_on_idle": auto_delete_on_idle,
            "enable_partitioning": enable_partitioning,
            "enable_express": enable_express,
            "user_metadata": user_metadata,
            "max_message_size_in_kilobytes": max_message_size_in_kilobytes,
            "status": status,
        }
        return _properties(
            self._transport.create_topic(required_text("topic_name", topic_name), native_options(options))
        )

    def get_topic(self, topic_name: str) -> TopicProperties:
        """Return the options of a topic.

        Args:
            topic_name: The name of the topic.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-019; `azure.servicebus.management.ServiceBusAdministrationClient.get_topic`.
        """
        return _properties(self._transport.get_topic(required_text("topic_name", topic_name)))

    def get_topic_runtime_properties(self, topic_name: str) -> TopicRuntimeProperties:
        """Return the message counts of a topic: summed over its partitions, and for each partition.

        Args:
            topic_name: The name of the topic.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-097, B-389, B-392.
        """
        return _runtime(self._transport.topic_runtime(required_text("topic_name", topic_name)))

    def update_topic(self, /, topic: TopicProperties | Mapping[str, Any], **changes: Any) -> None:
        """Change the options of a topic.

        Args:
            topic: The object that `get_topic` returned, with your changes; or a mapping with all of its names. An
                option that is None keeps its value.
            changes: Options by name, which replace those of the object.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist.
            InvalidOperationError: An option that is fixed at creation would change, or an option is not available in
                this version or tier.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A mapping lacks an option or has an unknown one, or an option has the wrong type.
            ValueError: An option is out of its range, or the namespace is closed.

        Source: docs/behaviour.md B-008, B-031.
        """
        call = "ServiceBusAdministrationClient.update_topic"
        properties = with_changes(TopicProperties, call, topic, changes)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        self._transport.update_topic(properties.name, native_options(options))

    def delete_topic(self, topic_name: str) -> None:
        """Delete a topic with its scheduled messages, its subscriptions and their messages.

        Args:
            topic_name: The name of the topic.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-096; `azure.servicebus.management.ServiceBusAdministrationClient.delete_topic`.
        """
        self._transport.delete_topic(required_text("topic_name", topic_name))

    def list_topics(self) -> ItemPaged[TopicProperties]:
        """Return the options of all topics, by name, as an iterator with `by_page`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-457.
        """
        return ItemPaged(lambda: [_properties(found) for found in self._transport.list_topics()])

    def list_topics_runtime_properties(self) -> ItemPaged[TopicRuntimeProperties]:
        """Return the message counts of each topic, by name, as an iterator with `by_page`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-389, B-392, B-457.
        """
        return ItemPaged(lambda: [_runtime(found) for found in self._transport.list_topics_runtime()])


def _properties(native: Mapping[str, Any]) -> TopicProperties:
    return TopicProperties(**property_values(TopicProperties, native))


def _runtime(native: Mapping[str, Any]) -> TopicRuntimeProperties:
    return TopicRuntimeProperties(**runtime_values(TopicRuntimeProperties, native))
