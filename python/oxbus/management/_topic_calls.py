# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, changing, deleting and listing topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._paging import ItemPaged
from oxbus.management._topics import TopicProperties, TopicRuntimeProperties
from oxbus.management._translation import native_options, property_values, required_text, runtime_values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from oxbus._oxbus import Namespace
    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._enums import EntityStatus

_FIXED = ("name", "availability_status", "size_in_bytes", "total_max_size_in_megabytes")
"""What `TopicProperties` shows and an update cannot change."""


class TopicCalls:
    """The part of the administration client that deals with topics."""

    _namespace: Namespace

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
        """Create a topic. Messages sent to it vanish until it has a subscription.

        An option that is None takes its default. Durations are a `timedelta` or ISO 8601 text such as ``"PT1M"``.

        Args:
            topic_name: Up to 260 letters, digits and ``. - _ /``; letter case is kept, and ignored when comparing.
                Topics and queues share their names.
            default_message_time_to_live: For messages that set none, and the most for those that do. Default: no end.
            max_size_in_megabytes: Most megabytes per partition.
            requires_duplicate_detection: Drop a message whose id was seen; fixed at creation.
            duplicate_detection_history_time_window: How long ids are remembered, 10 minutes unless given.
            enable_batched_operations: Kept and shown. Default True.
            size_in_bytes: Without effect: it is counted.
            filtering_messages_before_publishing: Refuse a message that no rule selects. Default False.
            authorization_rules: Who else may do what with this topic through a server; in process nobody is asked.
                A key that is left out is made.
            support_ordering: Messages reach the subscriptions in the order in which they were sent.
            auto_delete_on_idle: The topic is deleted with its messages after this long without use, at least five
                minutes; never when missing.
            enable_partitioning: Spread topic and subscriptions over all partitions of the namespace. Default False.
            enable_express: Kept and shown. Default False.
            user_metadata: A text of your own, up to 1,024 characters.
            max_message_size_in_kilobytes: The largest message.
            status: What the topic lets through. Default active.

        Returns:
            The options of the new topic, defaults filled in.

        Raises:
            MessagingEntityAlreadyExistsError: An entity has that name.
            InvalidOperationError: An option asks for something that this version does not have.
            ValueError: The name or an option is out of its range.
            TypeError: An option is of the wrong type.
            PartitionUnavailableError: A partition is out of service.

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
            self._namespace._create_topic(required_text("topic_name", topic_name), native_options(options))
        )

    def get_topic(self, topic_name: str) -> TopicProperties:
        """Return the options of a topic.

        Raises:
            MessagingEntityNotFoundError: There is no such topic.
        """
        return _properties(self._namespace._get_topic(required_text("topic_name", topic_name)))

    def get_topic_runtime_properties(self, topic_name: str) -> TopicRuntimeProperties:
        """Return what a topic holds now, summed over its partitions and for each of them.

        Raises:
            MessagingEntityNotFoundError: There is no such topic.

        Source: docs/behaviour.md B-097, B-389, B-392.
        """
        return _runtime(self._namespace._topic_runtime(required_text("topic_name", topic_name)))

    def update_topic(self, topic: TopicProperties | Mapping[str, Any]) -> None:
        """Change the options of a topic.

        Args:
            topic: All options, as `get_topic` returned them with your changes, or a mapping with the same names.
                An option that is None keeps its value.

        Raises:
            MessagingEntityNotFoundError: There is no such topic.
            InvalidOperationError: An option that is fixed at creation would change, or an option asks for something
                that this version does not have.
            TypeError: A mapping lacks an option or has an unknown one, or an option is of the wrong type.
            ValueError: An option is out of its range.

        Source: docs/behaviour.md B-008, B-031.
        """
        properties = topic if isinstance(topic, TopicProperties) else TopicProperties(**topic)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        self._namespace._update_topic(properties.name, native_options(options))

    def delete_topic(self, topic_name: str) -> None:
        """Delete a topic with its scheduled messages, its subscriptions and their messages.

        Raises:
            MessagingEntityNotFoundError: There is no such topic.
            PartitionUnavailableError: A partition is out of service.
        """
        self._namespace._delete_topic(required_text("topic_name", topic_name))

    def list_topics(self) -> ItemPaged[TopicProperties]:
        """Return the options of all topics, by name, as an iterator with `by_page`."""
        return ItemPaged(lambda: [_properties(native) for native in self._namespace._list_topics()])

    def list_topics_runtime_properties(self) -> ItemPaged[TopicRuntimeProperties]:
        """Return what each topic holds now, by name, as an iterator with `by_page`."""
        return ItemPaged(
            lambda: [
                _runtime(self._namespace._topic_runtime(native["name"])) for native in self._namespace._list_topics()
            ]
        )


def _properties(native: Mapping[str, Any]) -> TopicProperties:
    return TopicProperties(**property_values(TopicProperties, native))


def _runtime(native: Mapping[str, Any]) -> TopicRuntimeProperties:
    return TopicRuntimeProperties(**runtime_values(TopicRuntimeProperties, native))
