# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, updating, deleting and listing queues."""

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
    with_changes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from oxbus.management._authorization import AuthorizationRule
    from oxbus.management._enums import EntityStatus
    from oxbus.management._transport import AdministrationTransport

_FIXED = ("name", "availability_status", "total_max_size_in_megabytes")
"""Attributes of `QueueProperties` that an update cannot change."""


class QueueCalls:
    """The queue operations of the administration client."""

    _transport: AdministrationTransport

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
            queue_name: Up to 260 letters, digits and ``. - _ /``. Letter case is kept and ignored in comparisons.
                Queues and topics share their names.
            authorization_rules: Keys and rights for this queue when it is accessed through a server; in-process calls
                are not checked. A missing key is generated.
            auto_delete_on_idle: Delete the queue with its messages after this much time without use, at least five
                minutes. Default: never.
            dead_lettering_on_message_expiration: Move expired messages to the dead-letter queue. Default False.
            default_message_time_to_live: Time to live of messages that set none, and the upper bound for the others.
                Default: no limit.
            duplicate_detection_history_time_window: How long message ids are remembered. Default 10 minutes.
            enable_batched_operations: Stored and returned; has no effect. Default True.
            enable_express: Stored and returned; has no effect. Default False.
            enable_partitioning: Spread the queue over all partitions of the namespace. Default False.
            lock_duration: How long a received message stays locked. Default one minute.
            max_delivery_count: Deliveries before a message moves to the dead-letter queue. Default 10.
            max_size_in_megabytes: Largest size of each partition, in megabytes.
            requires_duplicate_detection: Drop a message whose id was seen before; fixed at creation. Default False.
            requires_session: Receive by session; fixed at creation. Default False.
            forward_to: The queue or topic that messages are moved to as they become active. The queue can then not be
                received from; a message that cannot be moved is dead-lettered.
            user_metadata: Free text, at most 1,024 characters.
            forward_dead_lettered_messages_to: The queue or topic that dead-lettered messages are moved to. A message
                that cannot be moved stays in the dead-letter queue until it can.
            max_message_size_in_kilobytes: Largest message, in kilobytes.
            status: Which operations the queue allows. Default active.
            expire_whole_sessions: When a message of an accepted session expires, expire all ready messages of that
                session. Default False.

        Returns:
            The options of the new queue, with defaults filled in.

        Raises:
            MessagingEntityAlreadyExistsError: An entity of that name exists.
            InvalidOperationError: A forwarding destination does not exist, or an option is not available in this
                version or tier.
            ServiceBusQuotaExceededError: The namespace has as many entities as the tier allows.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: An argument has the wrong type.
            ValueError: The name or an option is out of its range, or the namespace is closed.

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
            self._transport.create_queue(required_text("queue_name", queue_name), native_options(options))
        )

    def get_queue(self, queue_name: str) -> QueueProperties:
        """Return the options of a queue.

        Args:
            queue_name: The name of the queue.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-019; `azure.servicebus.management.ServiceBusAdministrationClient.get_queue`.
        """
        return _properties(self._transport.get_queue(required_text("queue_name", queue_name)))

    def get_queue_runtime_properties(self, queue_name: str) -> QueueRuntimeProperties:
        """Return the message counts of a queue: summed over its partitions, and for each partition.

        Args:
            queue_name: The name of the queue.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-097, B-389 to B-394.
        """
        return _runtime(self._transport.queue_runtime(required_text("queue_name", queue_name)))

    def update_queue(self, /, queue: QueueProperties | Mapping[str, Any], **changes: Any) -> None:
        """Change the options of a queue.

        Args:
            queue: The object that `get_queue` returned, with your changes; or a mapping with all of its names. An
                option that is None keeps its value, except `forward_to` and `forward_dead_lettered_messages_to`: None
                ends forwarding, and the messages can be received again.
            changes: Options by name, which replace those of the object.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist.
            InvalidOperationError: An option that is fixed at creation would change, a forwarding destination does not
                exist, or an option is not available in this version or tier.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A mapping lacks an option or has an unknown one, or an option has the wrong type.
            ValueError: An option is out of its range, or the namespace is closed.

        Source: docs/behaviour.md B-008, B-031.
        """
        call = "ServiceBusAdministrationClient.update_queue"
        properties = with_changes(QueueProperties, call, queue, changes)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        self._transport.update_queue(properties.name, changed_options(options))

    def delete_queue(self, queue_name: str) -> None:
        """Delete a queue with its messages and its dead-letter queue.

        Args:
            queue_name: The name of the queue.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-096; `azure.servicebus.management.ServiceBusAdministrationClient.delete_queue`.
        """
        self._transport.delete_queue(required_text("queue_name", queue_name))

    def list_queues(self) -> ItemPaged[QueueProperties]:
        """Return the options of all queues, by name, as an iterator with `by_page`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-457.
        """
        return ItemPaged(lambda: [_properties(found) for found in self._transport.list_queues()])

    def list_queues_runtime_properties(self) -> ItemPaged[QueueRuntimeProperties]:
        """Return the message counts of each queue, by name, as an iterator with `by_page`.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-389 to B-394, B-457.
        """
        return ItemPaged(lambda: [_runtime(found) for found in self._transport.list_queues_runtime()])


def _properties(native: Mapping[str, Any]) -> QueueProperties:
    return QueueProperties(**property_values(QueueProperties, native))


def _runtime(native: Mapping[str, Any]) -> QueueRuntimeProperties:
    return QueueRuntimeProperties(**runtime_values(QueueRuntimeProperties, native))
