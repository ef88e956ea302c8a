# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, changing, deleting and listing the subscriptions of a topic."""

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
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from oxbus._oxbus import Namespace
    from oxbus.management._enums import EntityStatus
    from oxbus.management._rules import RuleProperties

_FIXED = ("name", "availability_status")
"""What `SubscriptionProperties` shows and an update cannot change."""


class SubscriptionCalls:
    """The part of the administration client that deals with subscriptions."""

    _namespace: Namespace

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
        """Create a subscription. It gets a copy of each message that is sent from now on and that its rules select.

        An option that is None takes its default. Durations are a `timedelta` or ISO 8601 text such as ``"PT1M"``.

        Args:
            topic_name: The topic.
            subscription_name: Up to 50 letters, digits and ``. - _``; letter case is kept, and ignored when comparing.
            lock_duration: How long a received message stays locked. Default one minute.
            requires_session: Receive by session; fixed at creation. Default False.
            default_message_time_to_live: For messages that set none, and the most for those that do; the shorter of
                this and the topic's holds. Default: no end.
            dead_lettering_on_message_expiration: Keep expired messages in the dead-letter queue. Default False.
            dead_lettering_on_filter_evaluation_exceptions: Keep messages on which a rule fails in the dead-letter
                queue. Default True.
            max_delivery_count: Deliveries before a message goes to the dead-letter queue. Default 10.
            enable_batched_operations: Kept and shown. Default True.
            forward_to: The queue or topic that its messages are moved to as they come. It cannot be received from
                then, and what cannot be moved is dead-lettered.
            user_metadata: A text of your own, up to 1,024 characters.
            forward_dead_lettered_messages_to: The queue or topic that its dead-lettered messages are moved to. What
                cannot be moved stays in the dead-letter queue until it can.
            auto_delete_on_idle: The subscription is deleted with its messages after this long without use, at least
                five minutes; never when missing.
            status: What the subscription lets through. Default active.
            rule: The first rule. None: ``$Default``, which selects every message.

        Returns:
            The options of the new subscription, defaults filled in.

        Raises:
            MessagingEntityNotFoundError: There is no such topic.
            MessagingEntityAlreadyExistsError: The topic has a subscription of that name.
            InvalidOperationError: The rule does not parse, or an option asks for something that this version does not
                have.
            ValueError: The name or an option is out of its range.
            TypeError: An option or a part of the rule is of the wrong type.
            PartitionUnavailableError: A partition is out of service.

        Source: docs/behaviour.md B-009, B-016, B-017, B-024 to B-031, B-345, B-359.
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
        return _properties(self._namespace._create_subscription(topic, name, native_options(options), first))

    def get_subscription(self, topic_name: str, subscription_name: str) -> SubscriptionProperties:
        """Return the options of a subscription.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription.
        """
        return _properties(self._namespace._get_subscription(*_names(topic_name, subscription_name)))

    def get_subscription_runtime_properties(
        self, topic_name: str, subscription_name: str
    ) -> SubscriptionRuntimeProperties:
        """Return what a subscription holds now, summed over its partitions and for each of them.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription.

        Source: docs/behaviour.md B-097, B-389 to B-394.
        """
        return _runtime(self._namespace._subscription_runtime(*_names(topic_name, subscription_name)))

    def update_subscription(self, topic_name: str, subscription: SubscriptionProperties | Mapping[str, Any]) -> None:
        """Change the options of a subscription.

        Args:
            topic_name: The topic.
            subscription: All options, as `get_subscription` returned them with your changes, or a mapping with the
                same names. An option that is None keeps its value, but `forward_to` and
                `forward_dead_lettered_messages_to` end with it: what is there can be received again.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription.
            InvalidOperationError: An option that is fixed at creation would change, or an option asks for something
                that this version does not have.
            TypeError: A mapping lacks an option or has an unknown one, or an option is of the wrong type.
            ValueError: An option is out of its range.

        Source: docs/behaviour.md B-008, B-031.
        """
        given = subscription
        properties = given if isinstance(given, SubscriptionProperties) else SubscriptionProperties(**given)
        options = {name: value for name, value in properties.items() if name not in _FIXED}
        topic, name = _names(topic_name, properties.name)
        self._namespace._update_subscription(topic, name, changed_options(options))

    def delete_subscription(self, topic_name: str, subscription_name: str) -> None:
        """Delete a subscription with its rules, its messages and its dead-letter queue.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription.
            PartitionUnavailableError: A partition is out of service.
        """
        self._namespace._delete_subscription(*_names(topic_name, subscription_name))

    def list_subscriptions(self, topic_name: str) -> ItemPaged[SubscriptionProperties]:
        """Return the options of all subscriptions of a topic, by name, as an iterator with `by_page`.

        Raises:
            MessagingEntityNotFoundError: There is no such topic; raised at the first item.
        """
        topic = required_text("topic_name", topic_name)
        return ItemPaged(lambda: [_properties(native) for native in self._namespace._list_subscriptions(topic)])

    def list_subscriptions_runtime_properties(self, topic_name: str) -> ItemPaged[SubscriptionRuntimeProperties]:
        """Return what each subscription of a topic holds now, by name, as an iterator with `by_page`.

        Raises:
            MessagingEntityNotFoundError: There is no such topic; raised at the first item.
        """
        topic = required_text("topic_name", topic_name)
        return ItemPaged(
            lambda: [
                _runtime(self._namespace._subscription_runtime(topic, native["name"]))
                for native in self._namespace._list_subscriptions(topic)
            ]
        )


def _names(topic_name: str, subscription_name: str) -> tuple[str, str]:
    return required_text("topic_name", topic_name), required_text("subscription_name", subscription_name)


def _properties(native: Mapping[str, Any]) -> SubscriptionProperties:
    return SubscriptionProperties(**property_values(SubscriptionProperties, native))


def _runtime(native: Mapping[str, Any]) -> SubscriptionRuntimeProperties:
    return SubscriptionRuntimeProperties(**runtime_values(SubscriptionRuntimeProperties, native))
