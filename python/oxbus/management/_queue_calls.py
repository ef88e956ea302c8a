# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, changing, deleting and listing queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._paging import ItemPaged
from oxbus.management._queues import QueueProperties, QueueRuntimeProperties
from oxbus.management._translation import (
    changed_options,
    native_options,
    property_values,
    required_text,
    runtime_values,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from oxbus._oxbus import Namespace
    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._enums import EntityStatus

_FIXED = ("name", "availability_status", "total_max_size_in_megabytes")
"""What `QueueProperties` shows and an update cannot change."""


class QueueCalls:
    """The part of the administration client that deals with queues."""

    _namespace: Namespace

    def create_queue(
        self,
        queue_name: str,
        *,
        authorization_rules: list[AuthorizationRule] | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        dead_lettering_on_message_expiration: bool | None = None,
        default_message_time_to_live: timedelta | str | None = None,
        duplicate_detection_history_time_window: timedelta | str | None = None,
        enable_batched_operations: bool | None = None,
        enable_express: bool | None = None,
        enable_partitioning: bool | None = None,
        lock_duration: timedelta | str | None = None,
        max_delivery_count: int | None = None,
        max_size_in_megabytes: int | None = None,
        requires_duplicate_detection: bool | None = None,
        requires_session: bool | None = None,
        forward_to: str | None = None,
        user_metadata: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        status: str | EntityStatus | None = None,
        expire_whole_sessions: bool | None = None,
    ) -> QueueProperties:
        """Create a queue.

        An option that is None takes its default. Durations are a `timedelta` or ISO 8601 text such as ``"PT1M"``.

        Args:
            queue_name: Up to 260 letters, digits and ``. - _ /``; letter case is kept, and ignored when comparing.
            authorization_rules: Who else may do what with this queue through a server; in process nobody is asked.
                A key that is left out is made.
            auto_delete_on_idle: The queue is deleted with its messages after this long without use, at least five
                minutes; never when missing.
            dead_lettering_on_message_expiration: Keep expired messages in the dead-letter queue. Default False.
            default_message_time_to_live: For messages that set none, and the most for those that do. Default: no end.
            duplicate_detection_history_time_window: How long ids are remembered, 10 minutes unless given.
            enable_batched_operations: Kept and shown. Default True.
            enable_express: Kept and shown. Default False.
            enable_partitioning: Spread the queue over all partitions of the namespace. Default False.
            lock_duration: How long a received message stays locked. Default one minute.
            max_delivery_count: Deliveries before a message goes to the dead-letter queue. Default 10.
            max_size_in_megabytes: Most megabytes per partition.
            requires_duplicate_detection: Drop a message whose id was seen; fixed at creation.
            requires_session: Receive by session; fixed at creation.
            forward_to: The queue or topic that its messages are moved to as they become active. It cannot be received
                from then, and what cannot be moved is dead-lettered.
            user_metadata: A text of your own, up to 1,024 characters.
            forward_dead_lettered_messages_to: The queue or topic that its dead-lettered messages are moved to. What
                cannot be moved stays in the dead-letter queue until it can.
            max_message_size_in_kilobytes: The largest message.
            status: What the queue lets through. Default active.
            expire_whole_sessions: Once a message of a session that somebody receives from expires, so do all its ready
                messages. Default False.

        Returns:
            The options of the new queue, defaults filled in.

        Raises:
            MessagingEntityAlreadyExistsError: An entity has that name.
            InvalidOperationError: An option asks for something that this version does not have.
            ValueError: The name or an option is out of its range.
            TypeError: An option is of the wrong type.
            PartitionUnavailableError: A partition is out of service.

        Source: docs/behaviour.md B-008, B-016 to B-033, B-096.
        """
        options = {
            "authorization_rules": authorization_rules,
            "auto_delete_on_idle": auto_delete_on_idle,
            "dead_lettering_on_message_expiration": dead_lettering_on_message_expiration,
            "default_message_time_to_live": default_message_time_to_live,
            "duplicate_detection_history_time_window": duplicate_detection_history_time_window,
            "enable_batched_operations": enable_batched_operations,
            "enable_express": enable_express,
            "enable_partitioning": enable_partitioning,
            "lock_duration": lock_duration,
            "max_delivery_count": max_delivery_count,
            "max_size_in_megabytes": max_size_in_megabytes,
            "requires_duplicate_detection": requires_duplicate_detection,
            "requires_session": requires_session,
            "forward_to": forward_to,
            "user_metadata": user_metadata,
            "forward_dead_lettered_messages_to": forward_dead_lettered_messages_to,
            "max_message_size_in_kilobytes": max_message_size_in_kilobytes,
            "status": status,
            "expire_whole_sessions": expire_whole_sessions,
        }
        return _properties(
            self._namespace._create_queue(required_text("queue_name", queue_name), native_options(options))
        )

    def get_queue(self, queue_name: str) -> QueueProperties:
        """Return the options of a queue.

        Raises:
            MessagingEntityNotFoundError: There is no such queue.
        """
        return _properties(self._namespace._get_queue(required_text("queue_name", queue_name)))

    def get_queue_runtime_properties(self, queue_name: str) -> QueueRuntimeProperties:
        """Return what a queue holds now, summed over its partitions and for each of them.

        Raises:
            MessagingEntityNotFoundError: There is no such queue.

        Source: docs/behaviour.md B-097, B-389 to B-394.
        """
        return _runtime(self._namespace._queue_runtime(required_text("queue_name", queue_name)))

    def update_queue(self, queue: QueueProperties | Mapping[str, Any]) -> None:
        """Change the options of a queue.

        Args:
            queue: All options, as `get_queue` returned them with your changes, or a mapping with the same names.
                An option that is None keeps its value, but `forward_to` and `forward_dead_lettered_messages_to` end
                with it: what is there can be received again.

        Raises:
            MessagingEntityNotFoundError: There is no such queue.
            InvalidOperationError: An option that is fixed at creation would change, or an option asks for something
                that this version does not have.
            TypeError: A mapping lacks an option or has an unknown one, or an option is of the wrong type.
            ValueError: An option is out of its range.

        Source: docs/behaviour.md B-008, B-031.
        """
        properties = queue if isinstance(queue, QueueProperties) else QueueProperties(**queue)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        self._namespace._update_queue(properties.name, changed_options(options))

    def delete_queue(self, queue_name: str) -> None:
        """Delete a queue with its messages and its dead-letter queue.

        Raises:
            MessagingEntityNotFoundError: There is no such queue.
            PartitionUnavailableError: A partition is out of service.
        """
        self._namespace._delete_queue(required_text("queue_name", queue_name))

    def list_queues(self) -> ItemPaged[QueueProperties]:
        """Return the options of all queues, by name, as an iterator with `by_page`."""
        return ItemPaged(lambda: [_properties(native) for native in self._namespace._list_queues()])

    def list_queues_runtime_properties(self) -> ItemPaged[QueueRuntimeProperties]:
        """Return what each queue holds now, by name, as an iterator with `by_page`."""
        return ItemPaged(
            lambda: [
                _runtime(self._namespace._queue_runtime(native["name"])) for native in self._namespace._list_queues()
            ]
        )


def _properties(native: Mapping[str, Any]) -> QueueProperties:
    return QueueProperties(**property_values(QueueProperties, native))


def _runtime(native: Mapping[str, Any]) -> QueueRuntimeProperties:
    return QueueRuntimeProperties(**runtime_values(QueueRuntimeProperties, native))
