# SPDX-License-Identifier: Apache-2.0
"""The error text for an entity that does not exist: its name, the existing ones, and how to create it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oxbus._entity_path import subscription_path
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from argparse import Namespace as Options
    from collections.abc import Iterator

    from oxbus.management import ServiceBusAdministrationClient

_SHOWN: Final = 20
"""Number of names to list."""


def missing_entity(admin: ServiceBusAdministrationClient, options: Options) -> str | None:
    """Return the error text; None if everything that the command names exists, or if that cannot be determined."""
    try:
        return next(_missing_names(admin, options), None)
    except ServiceBusError:
        return None


def _missing_names(admin: ServiceBusAdministrationClient, options: Options) -> Iterator[str]:
    """Yield an error text for each missing entity that the command names, the outermost first."""
    kind, entity = getattr(options, "kind", None), getattr(options, "entity", None)
    topic, subscription, name = _names(options)
    queues = [queue.name for queue in admin.list_queues()]
    topics = [it.name for it in admin.list_topics()]
    if kind in {"queue", "topic"}:
        yield from _missing(kind, name, queues if kind == "queue" else topics)
    elif topic is not None:
        yield from _missing("topic", topic, topics)
        yield from _missing("subscription", subscription, [it.name for it in admin.list_subscriptions(topic)], topic)
        if kind is None and name is not None and subscription is not None:
            rules = [rule.name for rule in admin.list_rules(topic, subscription)]
            yield from _missing("rule", name, rules, topic, subscription)
    elif entity is not None:
        paths = [subscription_path(it, part.name) for it in topics for part in admin.list_subscriptions(it)]
        yield from _missing("queue", entity, [*queues, *topics, *paths])


def _names(options: Options) -> tuple[str | None, str | None, str | None]:
    """Return topic, subscription and name, as far as the command has them."""
    name, subscription = getattr(options, "name", None), getattr(options, "subscription", None)
    topic = getattr(options, "topic", None)
    if topic is not None:
        return topic, subscription if subscription is not None else name, name
    return (options.entity if subscription is not None else None), subscription, name


def _missing(kind: str, name: str | None, known: list[str], *owner: str) -> Iterator[str]:
    """Yield an error text if a name is not among those known."""
    if name is None or name.lower() in {other.lower() for other in known}:
        return
    shown = ", ".join(known[:_SHOWN]) or "none"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    kinds = "entities" if kind == "queue" and any("/Subscriptions/" in other for other in known) else f"{kind}s"
    make = " ".join([kind, "create", *owner, name])
    yield f"the {kind} `{name}` does not exist; existing {kinds}: {shown}{more}; create it with `oxbus {make}`"
