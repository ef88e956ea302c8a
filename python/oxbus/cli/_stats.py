# SPDX-License-Identifier: Apache-2.0
"""`oxbus stats`: message counts, size limits and partition health."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from oxbus._entity_path import subscription_path
from oxbus._oxbus import Namespace
from oxbus.cli._exit_codes import DONE, FAILED, UsageError
from oxbus.cli._namespace import OpenNamespace, add_namespace_options, open_bus, rules
from oxbus.cli._output import plain, print_json
from oxbus.cli._receive import SUB_QUEUES
from oxbus.cli._reservations import COUNTED, HEADINGS
from oxbus.cli._stages import print_stages
from oxbus.cli._table import print_table
from oxbus.exceptions import MessagingEntityNotFoundError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterable, Iterator

    from oxbus.cli._bus import Bus
    from oxbus.management import StageProperties

_COUNTS: Final = (
    "active_message_count",
    "locked_message_count",
    "deferred_message_count",
    "scheduled_message_count",
    "dead_letter_message_count",
    "transfer_message_count",
    "transfer_dead_letter_message_count",
    "size_in_bytes",
)
_SIZES: Final = ("max_size_in_megabytes", "total_max_size_in_megabytes")
_HEADINGS: Final = {
    "active_message_count": "active",
    "locked_message_count": "locked",
    "deferred_message_count": "deferred",
    "scheduled_message_count": "scheduled",
    "dead_letter_message_count": "dead",
    "transfer_message_count": "transfer",
    "transfer_dead_letter_message_count": "transfer dead",
    "size_in_bytes": "bytes",
    "max_size_in_megabytes": "max MB",
    "total_max_size_in_megabytes": "total MB",
}
_DEFAULTS: Final = {
    **dict.fromkeys(("locked", "deferred", "scheduled", "transfer", "transfer dead"), "0"),
    "status": "Active",
    "availability": "Available",
    "available": "yes",
}
"""Column values that may be omitted on a narrow terminal if they are the same in every row."""

_SPARE: Final = ("total MB", "max MB", "kind")


def add_stats(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_stats)
    parser.add_argument(
        "entity", nargs="?", metavar="ENTITY", help="one entity with its partitions (default: all entities)"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="show the entities of a config.json of the Service Bus emulator, in memory"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)


def _stats(options: Options) -> int:
    if options.config is not None and (options.data or options.connection_string) is not None:
        raise UsageError(
            "--config shows a file alone: omit --data and --connection-string, or use `oxbus init DIR --config FILE`"
        )
    with _open(options) as bus:
        entities = list(_entities(bus))
        if options.entity is not None:
            entities = [values for values in entities if values["name"].lower() == options.entity.lower()]
            if not entities:
                raise MessagingEntityNotFoundError(f"the entity does not exist: `{options.entity}`")
        # A server reports nothing but its entities.
        health, namespace, stages = None, None, None
        if isinstance(bus, OpenNamespace):
            health = [_health(partition) for partition in bus.namespace.partition_health()]
            namespace = bus.namespace.statistics()
            stages = list(bus.admin.list_stages())
    if options.json:
        print_json({"namespace": plain(namespace), "entities": entities, "partitions": health, "stages": plain(stages)})
    else:
        _print_all(entities, health, stages, one=options.entity is not None)
    return FAILED if _print_unwell(entities, health) else DONE


def _print_all(
    entities: list[dict[str, Any]],
    health: list[dict[str, Any]] | None,
    stages: list[StageProperties] | None,
    *,
    one: bool,
) -> None:
    """Print the tables; `one`: of one entity, with its partitions."""
    _print_entities(entities)
    if one and entities[0]["partitions"]:
        print()
        _print_partitions(entities[0]["partitions"])
    _print_reservations(entities)
    if not one and health is not None:
        print()
        print_table(["partition", "health", "reason"], [list(partition.values()) for partition in health])
    if not one and stages:
        print()
        print_stages(stages)


def _print_unwell(entities: list[dict[str, Any]], health: list[dict[str, Any]] | None) -> bool:
    """Print a warning if a partition is out of service; return whether one is."""
    if health is None:
        limited = [values["name"] for values in entities if values["availability_status"] == "Limited"]
        if limited:
            print(f"oxbus: entities with partitions out of service: {', '.join(limited)}", file=sys.stderr)
        return bool(limited)
    unwell = [str(partition["partition_id"]) for partition in health if partition["status"] != "healthy"]
    if unwell:
        print(f"oxbus: partitions out of service: {', '.join(unwell)}; the column reason shows why", file=sys.stderr)
    return bool(unwell)


def _open(options: Options) -> Bus:
    if options.config is not None:
        return OpenNamespace(Namespace(config=options.config, **rules(options)), options)
    return open_bus(options)


def _entities(bus: Bus) -> Iterator[dict[str, Any]]:
    """Yield queues, then topics, each followed by its subscriptions."""
    admin = bus.admin
    for queue, counts in _counted(admin.list_queues(), admin.list_queues_runtime_properties()):
        yield _values("queue", queue.name, queue, counts) | _reserved(bus, queue.name)
    for topic, counts in _counted(admin.list_topics(), admin.list_topics_runtime_properties()):
        yield _values("topic", topic.name, topic, counts)
        subscriptions = admin.list_subscriptions(topic.name)
        for part, part_counts in _counted(subscriptions, admin.list_subscriptions_runtime_properties(topic.name)):
            path = subscription_path(topic.name, part.name)
            yield _values("subscription", path, part, part_counts) | _reserved(bus, path)


def _counted(entities: Iterable[Any], counts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield entities with their counts; without those that were created or deleted in between."""
    by_name = {found.name: found for found in counts}
    return ((entity, by_name[entity.name]) for entity in entities if entity.name in by_name)


def _values(kind: str, path: str, properties: Any, runtime: Any) -> dict[str, Any]:
    """Return the values of one entity; None for counts that its kind does not have."""
    return {
        "kind": kind,
        "name": path,
        "status": properties.status,
        "availability_status": runtime.availability_status,
        "enable_partitioning": getattr(properties, "enable_partitioning", None),
        **{name: getattr(runtime, name, None) for name in _COUNTS},
        **{name: getattr(properties, name, None) for name in _SIZES},
        "partitions": plain(runtime.partitions),
    }


def _reserved(bus: Bus, path: str) -> dict[str, Any]:
    """Return the reservations of an entity and of its dead-letter queue; a server reports none."""
    if not isinstance(bus, OpenNamespace):
        return {}
    reservations = [
        {"sub_queue": sub_queue, **asdict(reservation)}
        for sub_queue in (None, SUB_QUEUES[0])
        for reservation in bus.admin.list_reservations(path, sub_queue=sub_queue)
    ]
    return {"reservations": plain(reservations)}


def _health(partition: Any) -> dict[str, Any]:
    return {"partition_id": partition.partition_id, "status": partition.status, "reason": partition.reason}


def _print_entities(entities: list[dict[str, Any]]) -> None:
    columns = (*_COUNTS, *_SIZES)
    headings = ["kind", "name", *(_HEADINGS[name] for name in columns), "status", "availability"]
    shown = ["kind", "name", *columns, "status", "availability_status"]
    rows = [[values[name] for name in shown] for values in entities]
    print_table(headings, rows, right=list(_HEADINGS.values()), defaults=_DEFAULTS, spare=_SPARE, title=2)


def _print_reservations(entities: list[dict[str, Any]]) -> None:
    rows = [
        [values["name"], *reservation.values()] for values in entities for reservation in values.get("reservations", ())
    ]
    if rows:
        print()
        print_table(["entity", "sub-queue", *HEADINGS], rows, right=COUNTED)


def _print_partitions(partitions: list[dict[str, Any]]) -> None:
    headings = ["partition", *(_HEADINGS[name] for name in _COUNTS), "available"]
    shown = ["partition_id", *_COUNTS, "available"]
    rows = [[partition[name] for name in shown] for partition in partitions]
    print_table(headings, rows, right=list(_HEADINGS.values()), defaults=_DEFAULTS)
