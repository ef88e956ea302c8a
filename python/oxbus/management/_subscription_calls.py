# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, updating, deleting and listing the subscriptions of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._paging import ItemPaged
from oxbus.management._rule_translation import native_rule
from oxbus.management._subscriptions import SubscriptionProperties, SubscriptionRuntimeProperties
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

    from oxbus.management._enums import EntityStatus
    from oxbus.management._rules import RuleProperties
    from oxbus.management._transport import AdministrationTransport

_FIXED = ("name", "availability_status")
"""Attributes of `SubscriptionProperties` that an update cannot change."""


class SubscriptionCalls:
    """The subscription operations of the administration client."""

    _transport: AdministrationTransport

    def create_subscription(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        lock_duration: timedelta | str | None = None,
        requires_session: bool | None = None,
        default_message_time_to_live: timedelta | str | None = None,
        dead_lettering_on_message_expiration: bool | None = None,
        dead_lettering_on_filter_evaluation_exceptions: bool | None = None,
        max_delivery_count: int | None = None,
        enable_batched_operations: bool | None = None,
        forward_to: str | None = None,
        user_metadata: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        auto_delete_on_idle: timedelta | str | None = None,
        status: str | EntityStatus | None = None,
        rule: RuleProperties | Mapping[str, Any] | None = None,
    ) -> SubscriptionProperties:
        """Create a subscription, which gets a copy of each later message that its rules select.

        An option that is None takes its default. Durations are a `timedelta` or ISO 8601 text such as ``"PT1M"``.

        Args:
            topic_name: The topic.
            subscription_name: Up to 50 letters, digits and ``. - _``. Letter case is kept and ignored in comparisons.
            lock_duration: How long a received message stays locked. Default one minute.
            requires_session: Receive by session; fixed at creation. Default False.
            default_message_time_to_live: Time to live of messages that set none, and the upper bound for the others;
                the shorter of this and the topic's value applies. Default: no limit.
            dead_lettering_on_message_expiration: Move expired messages to the dead-letter queue. Default False.
            dead_lettering_on_filter_evaluation_exceptions: Dead-letter a message on which a rule fails. Default True.
            max_delivery_count: Deliveries before a message moves to the dead-letter queue. Default 10.
            enable_batched_operations: Stored and returned; has no effect. Default True.
            forward_to: The queue or topic that messages are moved to as they become active. The subscription can then
                not be received from; a message that cannot be moved is dead-lettered.
            user_metadata: Free text, at most 1,024 characters.
            forward_dead_lettered_messages_to: The queue or topic that dead-lettered messages are moved to. A message
                that cannot be moved stays in the dead-letter queue until it can.
            auto_delete_on_idle: Delete the subscription with its messages after this much time without use, at least
                five minutes. Default: never.
            status: Which operations the subscription allows. Default active.
            rule: The first rule. None: ``$Default``, which selects every message.

        Returns:
            The options of the new subscription, with defaults filled in.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist.
            InvalidRuleError: The name, filter or action of the rule is invalid.
            MessagingEntityAlreadyExistsError: The topic has a subscription of that name.
            InvalidOperationError: A forwarding destination does not exist, or an option is not available in this
                version or tier.
            ServiceBusQuotaExceededError: The topic has as many subscriptions or filters as the tier allows.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: An argument has the wrong type.
            ValueError: The name or an option is out of its range, or the namespace is closed.

        Source: docs/behaviour.md B-009, B-016, B-017, B-024 to B-031, B-042, B-345, B-359.
        """
        options = {
            "lock_duration": lock_duration,
            "requires_session": requires_session,
            "default_message_time_to_live": default_message_time_to_live,
            "dead_lettering_on_message_expiration": dead_lettering_on_message_expiration,
            "dead_lettering_on_filter_evaluation_exceptions": dead_lettering_on_filter_evaluation_exceptions,
            "max_delivery_count": max_delivery_count,
            "enable_batched_operations": enable_batched_operations,
            "forward_to": forward_to,
            "user_metadata": user_metadata,
            "forward_dead_lettered_messages_to": forward_dead_lettered_messages_to,
            "auto_delete_on_idle": auto_delete_on_idle,
            "status": status,
        }
        topic, name = _names(topic_name, subscription_name)
        first = None if rule is None else native_rule(rule)
        return _properties(self._transport.create_subscription(topic, name, native_options(options), first))

    def get_subscription(self, topic_name: str, subscription_name: str) -> SubscriptionProperties:
        """Return the options of a subscription.

        Args:
            topic_name: The name of the topic.
            subscription_name: The name of its subscription.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-019; `azure.servicebus.management.ServiceBusAdministrationClient.get_subscription`.
        """
        return _properties(self._transport.get_subscription(*_names(topic_name, subscription_name)))

    def get_subscription_runtime_properties(
        self, topic_name: str, subscription_name: str
    ) -> SubscriptionRuntimeProperties:
        """Return the message counts of a subscription: summed over its partitions, and for each partition.

        Args:
            topic_name: The name of the topic.
            subscription_name: The name of its subscription.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-097, B-389 to B-394.
        """
        return _runtime(self._transport.subscription_runtime(*_names(topic_name, subscription_name)))

    def update_subscription(
        self, /, topic_name: str, subscription: SubscriptionProperties | Mapping[str, Any], **changes: Any
    ) -> None:
        """Change the options of a subscription.

        Args:
            topic_name: The name of the topic.
            subscription: The object that `get_subscription` returned, with your changes; or a mapping with all of its
                names. An option that is None keeps its value, except `forward_to` and
                `forward_dead_lettered_messages_to`: None ends forwarding, and the messages can be received again.
            changes: Options by name, which replace those of the object.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist.
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
        call = "ServiceBusAdministrationClient.update_subscription"
        properties = with_changes(SubscriptionProperties, call, subscription, changes)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        topic, name = _names(topic_name, properties.name)
        self._transport.update_subscription(topic, name, changed_options(options))

    def delete_subscription(self, topic_name: str, subscription_name: str) -> None:
        """Delete a subscription with its rules, its messages and its dead-letter queue.

        Args:
            topic_name: The name of the topic.
            subscription_name: The name of its subscription.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-096;
        `azure.servicebus.management.ServiceBusAdministrationClient.delete_subscription`.
        """
        self._transport.delete_subscription(*_names(topic_name, subscription_name))

    def list_subscriptions(self, topic_name: str) -> ItemPaged[SubscriptionProperties]:
        """Return the options of all subscriptions of a topic, by name, as an iterator with `by_page`.

        Args:
            topic_name: The name of the topic.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist; raised at the first item.
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            TypeError: A name is not a str.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-457.
        """
        topic = required_text("topic_name", topic_name)
        return ItemPaged(lambda: [_properties(found) for found in self._transport.list_subscriptions(topic)])

    def list_subscriptions_runtime_properties(self, topic_name: str) -> ItemPaged[SubscriptionRuntimeProperties]:
        """Return the message counts of each subscription of a topic, by name, as an iterator with `by_page`.

        Args:
            topic_name: The name of the topic.

        Raises:
            MessagingEntityNotFoundError: The topic does not exist; raised at the first item.
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            TypeError: A name is not a str.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-389 to B-394, B-457.
        """
        topic = required_text("topic_name", topic_name)
        return ItemPaged(lambda: [_runtime(found) for found in self._transport.list_subscriptions_runtime(topic)])


def _names(topic_name: str, subscription_name: str) -> tuple[str, str]:
    return required_text("topic_name", topic_name), required_text("subscription_name", subscription_name)


def _properties(native: Mapping[str, Any]) -> SubscriptionProperties:
    return SubscriptionProperties(**property_values(SubscriptionProperties, native))


def _runtime(native: Mapping[str, Any]) -> SubscriptionRuntimeProperties:
    return SubscriptionRuntimeProperties(**runtime_values(SubscriptionRuntimeProperties, native))
