# SPDX-License-Identifier: Apache-2.0
"""`oxbus queue | topic | subscription` with `create | show | list | update | delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._entity_options import add_entity_options, entity_options
from oxbus.cli._exit_codes import DONE, UsageError
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import plain, print_json, print_pairs
from oxbus.cli._rule_options import add_rule_options, rule_action, rule_filter
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Callable

    from oxbus.cli._bus import Bus

_LISTED: Final = {
    "queue": (
        "enable_partitioning",
        "requires_session",
        "lock_duration",
        "max_delivery_count",
        "max_size_in_megabytes",
        "total_max_size_in_megabytes",
        "status",
    ),
    "topic": (
        "enable_partitioning",
        "support_ordering",
        "max_size_in_megabytes",
        "total_max_size_in_megabytes",
        "status",
    ),
    "subscription": ("requires_session", "lock_duration", "max_delivery_count", "forward_to", "status"),
}
_HEADINGS: Final = {
    "enable_partitioning": "partitioned",
    "requires_session": "sessions",
    "lock_duration": "lock",
    "max_delivery_count": "deliveries",
    "max_size_in_megabytes": "max MB",
    "total_max_size_in_megabytes": "total MB",
    "support_ordering": "ordered",
}
_DEFAULTS: Final = {"sessions": "no", "forward_to": "-", "ordered": "yes", "status": "Active"}
_RIGHT: Final = ("lock", "deliveries", "max MB", "total MB")


def add_entity_commands(add: Callable[..., ArgumentParser], kind: str) -> None:
    """Add the commands of a kind of entity.

    Args:
        add: Adds a command and returns its parser; takes its name, its help and the function that runs it.
        kind: ``"queue"``, ``"topic"`` or ``"subscription"``.
    """
    create = _command(add, "create", f"create a {kind} and show its options", _create, kind)
    add_entity_options(create, kind)
    if kind == "subscription":
        create.add_argument(
            "--rule", metavar="NAME", help="its first rule, with the filter and action below, in place of $Default"
        )
        add_rule_options(create)
    _command(add, "show", f"show the options of a {kind}", _show, kind)
    update = _command(add, "update", f"change the given options of a {kind}", _update, kind)
    add_entity_options(update, kind)
    _command(add, "delete", f"delete a {kind} with its messages", _delete, kind)
    _command(add, "list", f"show all {kind}s", _list, kind, named=False)


def _command(
    add: Callable[..., ArgumentParser], verb: str, explanation: str, run: Any, kind: str, *, named: bool = True
) -> ArgumentParser:
    parser = add(verb, explanation, run)
    parser.set_defaults(kind=kind)
    if kind == "subscription":
        parser.add_argument("topic", metavar="TOPIC", help="the topic")
    if named:
        parser.add_argument("name", metavar="NAME", help=f"the {kind}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)
    return parser


def _owner(options: Options) -> tuple[str, ...]:
    return (options.topic,) if options.kind == "subscription" else ()


def _call(bus: Bus, verb: str, options: Options) -> Callable[..., Any]:
    """Return the call of the administration client, such as `create_queue`."""
    call: Callable[..., Any] = getattr(bus.admin, f"{verb}_{options.kind}")
    return call


def _create(options: Options) -> int:
    given = entity_options(options, options.kind)
    if options.kind == "subscription":
        given |= _first_rule(options)
    with open_bus(options) as bus:
        _print_entity(_call(bus, "create", options)(*_owner(options), options.name, **given), as_json=options.json)
    return DONE


def _first_rule(options: Options) -> dict[str, Any]:
    from oxbus.management import RuleProperties  # noqa: PLC0415 -- not needed for `--help`

    filter_, action = rule_filter(options), rule_action(options)
    if options.rule is not None:
        return {"rule": RuleProperties(options.rule, filter=filter_, action=action, created_at_utc=None)}
    if filter_ is not None or action is not None:
        raise UsageError("a filter or an action needs a rule: name it with --rule")
    return {}


def _show(options: Options) -> int:
    with open_bus(options) as bus:
        _print_entity(_call(bus, "get", options)(*_owner(options), options.name), as_json=options.json)
    return DONE


def _update(options: Options) -> int:
    given = entity_options(options, options.kind)
    if not given:
        raise UsageError("nothing to change: pass an option with its new value")
    with open_bus(options) as bus:
        names = (*_owner(options), options.name)
        entity = _call(bus, "get", options)(*names)
        entity.update(given)
        _call(bus, "update", options)(*_owner(options), entity)
        _print_entity(_call(bus, "get", options)(*names), as_json=options.json)
    return DONE


def _delete(options: Options) -> int:
    with open_bus(options) as bus:
        _call(bus, "delete", options)(*_owner(options), options.name)
    if options.json:
        print_json({"deleted": options.name})
    else:
        print(f"{options.kind} {options.name} is deleted")
    return DONE


def _list(options: Options) -> int:
    with open_bus(options) as bus:
        found = list(getattr(bus.admin, f"list_{options.kind}s")(*_owner(options)))
    if options.json:
        print_json([_values(entity) for entity in found])
        return DONE
    columns = _LISTED[options.kind]
    headings = ["name", *(_HEADINGS.get(column, column) for column in columns)]
    rows = [[entity.name, *(_values(entity)[column] for column in columns)] for entity in found]
    print_table(headings, rows, right=_RIGHT, defaults=_DEFAULTS)
    return DONE


def _values(entity: Any) -> dict[str, Any]:
    """Return the options of an entity by name."""
    return dict(entity.items())


def _print_entity(entity: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(_values(entity)))
    else:
        print_pairs(_values(entity))
