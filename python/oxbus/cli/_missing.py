# SPDX-License-Identifier: Apache-2.0
"""What to say when a command names an entity that is not there: what was named, what there is, and how to make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oxbus._entity_path import subscription_path
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from argparse import Namespace as Options

    from oxbus.management import ServiceBusAdministrationClient

_SHOWN: Final = 20
"""How many names are listed."""


def missing_entity(admin: ServiceBusAdministrationClient, options: Options) -> str | None:
    """The text of the refusal; None when all that the command names is there."""
    queues = [queue.name for queue in admin.list_queues()]
    topics = [topic.name for topic in admin.list_topics()]
    kind, entity = getattr(options, "kind", None), getattr(options, "entity", None)
    topic, subscription, name = _names(options)
    if kind == "queue" and _is_none_of(name, queues):
        return _told("queue", f"{name}", queues)
    if kind == "topic" and _is_none_of(name, topics):
        return _told("topic", f"{name}", topics)
    if topic is not None and _is_none_of(topic, topics):
        return _told("topic", topic, topics)
    subscriptions = {topic: [it.name for it in admin.list_subscriptions(topic)] for topic in topics}
    if topic is not None and subscription is not None:
        found = next(found for known, found in subscriptions.items() if known.lower() == topic.lower())
        if _is_none_of(subscription, found):
            return _told("subscription", subscription, found, f"{topic} ")
        if kind is None and name is not None:
            rules = [rule.name for rule in admin.list_rules(topic, subscription)]
            return _told("rule", name, rules, f"{topic} {subscription} ") if _is_none_of(name, rules) else None
    paths = [subscription_path(topic, it) for topic, found in subscriptions.items() for it in found]
    if entity is not None and _is_none_of(entity, [*queues, *topics, *paths]):
        return _told("queue", entity, [*queues, *topics, *paths])
    return None


def _names(options: Options) -> tuple[str | None, str | None, str | None]:
    """Topic, subscription and name, as far as the command has them."""
    name, subscription = getattr(options, "name", None), getattr(options, "subscription", None)
    topic = getattr(options, "topic", None)
    if topic is not None:
        return topic, subscription if subscription is not None else name, name
    return (options.entity if subscription is not None else None), subscription, name


def _is_none_of(name: str | None, known: list[str]) -> bool:
    return name is None or name.lower() not in {other.lower() for other in known}


def _told(kind: str, name: str, known: list[str], before: str = "") -> str:
    shown = ", ".join(known[:_SHOWN]) or "none"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    there = "entities" if kind == "queue" and any("/Subscriptions/" in other for other in known) else f"{kind}s"
    return (
        f"there is no {kind} `{name}`; {there} that there are: {shown}{more}; "
        f"make it with `oxbus {kind} create {before}{name}`"
    )


def explained(admin: ServiceBusAdministrationClient, options: Options) -> str | None:
    """The same; None also when that cannot be found out."""
    try:
        return missing_entity(admin, options)
    except ServiceBusError:
        return None
