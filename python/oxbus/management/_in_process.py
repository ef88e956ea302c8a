# SPDX-License-Identifier: Apache-2.0
"""The administration of a namespace of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._connection import NamespaceUse
    from oxbus._oxbus import Namespace
    from oxbus.management._transport import Selection


class InProcessTransport:
    """Administers a namespace of this process."""

    def __init__(self, namespace: Namespace, use: NamespaceUse | None = None) -> None:
        """Keep the namespace, and its use if a connection string opened it."""
        self._namespace = namespace
        self._use = use

    @property
    def _may_wait(self) -> bool:
        """Whether the namespace has stores, which a call may wait for."""
        return self._namespace._may_wait

    def close(self) -> None:
        """End the use of the namespace."""
        if self._use is not None:
            self._use.end()

    def create_queue(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._namespace._create_queue(name, dict(options))

    def get_queue(self, name: str) -> dict[str, Any]:
        return self._namespace._get_queue(name)

    def update_queue(self, name: str, options: Mapping[str, Any]) -> None:
        self._namespace._update_queue(name, dict(options))

    def delete_queue(self, name: str) -> None:
        self._namespace._delete_queue(name)

    def list_queues(self) -> list[dict[str, Any]]:
        return self._namespace._list_queues()

    def queue_runtime(self, name: str) -> dict[str, Any]:
        return self._namespace._queue_runtime(name)

    def list_queues_runtime(self) -> list[dict[str, Any]]:
        return [self.queue_runtime(queue["name"]) for queue in self.list_queues()]

    def create_topic(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._namespace._create_topic(name, dict(options))

    def get_topic(self, name: str) -> dict[str, Any]:
        return self._namespace._get_topic(name)

    def update_topic(self, name: str, options: Mapping[str, Any]) -> None:
        self._namespace._update_topic(name, dict(options))

    def delete_topic(self, name: str) -> None:
        self._namespace._delete_topic(name)

    def list_topics(self) -> list[dict[str, Any]]:
        return self._namespace._list_topics()

    def topic_runtime(self, name: str) -> dict[str, Any]:
        return self._namespace._topic_runtime(name)

    def list_topics_runtime(self) -> list[dict[str, Any]]:
        return [self.topic_runtime(topic["name"]) for topic in self.list_topics()]

    def create_subscription(
        self, topic: str, name: str, options: Mapping[str, Any], rule: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        first = None if rule is None else dict(rule)
        return self._namespace._create_subscription(topic, name, dict(options), first)

    def get_subscription(self, topic: str, name: str) -> dict[str, Any]:
        return self._namespace._get_subscription(topic, name)

    def update_subscription(self, topic: str, name: str, options: Mapping[str, Any]) -> None:
        self._namespace._update_subscription(topic, name, dict(options))

    def delete_subscription(self, topic: str, name: str) -> None:
        self._namespace._delete_subscription(topic, name)

    def list_subscriptions(self, topic: str) -> list[dict[str, Any]]:
        return self._namespace._list_subscriptions(topic)

    def subscription_runtime(self, topic: str, name: str) -> dict[str, Any]:
        return self._namespace._subscription_runtime(topic, name)

    def list_subscriptions_runtime(self, topic: str) -> list[dict[str, Any]]:
        return [self.subscription_runtime(topic, found["name"]) for found in self.list_subscriptions(topic)]

    def create_rule(self, topic: str, subscription: str, rule: Mapping[str, Any]) -> dict[str, Any]:
        return self._namespace._create_rule(topic, subscription, dict(rule))

    def get_rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]:
        return self._namespace._get_rule(topic, subscription, name)

    def update_rule(self, topic: str, subscription: str, rule: Mapping[str, Any]) -> None:
        self._namespace._update_rule(topic, subscription, dict(rule))

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self._namespace._delete_rule(topic, subscription, name)

    def list_rules(self, topic: str, subscription: str) -> list[dict[str, Any]]:
        return self._namespace._list_rules(topic, subscription)

    def purge(self, entity: str, sub_queue: str | None, selection: Selection) -> int:
        return self._namespace._purge(entity, sub_queue, *selection)

    def resubmit(self, entity: str, selection: Selection) -> int:
        return self._namespace._resubmit(entity, selection.expression, selection.parameters, selection.limit)

    def dead_letter_count(self, entity: str) -> int:
        return self._namespace._dead_letter_count(entity)

    def clock_ms(self) -> int:
        return self._namespace._clock_ms()

    def namespace_properties(self) -> dict[str, Any]:
        return self._namespace._namespace_properties()

    def namespace_for(self, call: str) -> Namespace:  # noqa: ARG002 (the namespace can do every call)
        """Return the namespace."""
        return self._namespace
