# SPDX-License-Identifier: Apache-2.0
"""`oxbus rule` with `create | show | list | update | delete`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from oxbus.cli._exit_codes import DONE, UsageError
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import plain, print_json, print_pairs
from oxbus.cli._rule_options import add_rule_options, rule_action, rule_filter
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Callable

    from oxbus.management import RuleProperties


def add_rule_commands(add: Callable[..., ArgumentParser]) -> None:
    """Add the commands."""
    add_rule_options(_command(add, "create", "add a rule to a subscription", _create))
    _command(add, "show", "show a rule", _show)
    update = _command(add, "update", "change the filter or the action of a rule", _update)
    add_rule_options(update)
    update.add_argument("--no-action", action="store_true", help="remove the action")
    _command(add, "delete", "delete a rule", _delete)
    _command(add, "list", "show the rules of a subscription", _list, named=False)


def _command(
    add: Callable[..., ArgumentParser], verb: str, explanation: str, run: Any, *, named: bool = True
) -> ArgumentParser:
    parser = add(verb, explanation, run)
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("subscription", metavar="SUBSCRIPTION", help="its subscription")
    if named:
        parser.add_argument("name", metavar="NAME", help="the rule")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)
    return parser


def _create(options: Options) -> int:
    filter_, action = rule_filter(options), rule_action(options)
    given: dict[str, Any] = {} if filter_ is None else {"filter": filter_}
    with open_bus(options) as bus:
        rule = bus.admin.create_rule(options.topic, options.subscription, options.name, action=action, **given)
    return _print_rule(rule, options)


def _show(options: Options) -> int:
    with open_bus(options) as bus:
        rule = bus.admin.get_rule(options.topic, options.subscription, options.name)
    return _print_rule(rule, options)


def _update(options: Options) -> int:
    filter_, action = rule_filter(options), rule_action(options)
    if filter_ is None and action is None and not options.no_action:
        raise UsageError("nothing to change: pass a filter, --action or --no-action")
    if action is not None and options.no_action:
        raise UsageError("--action and --no-action cannot both be given")
    with open_bus(options) as bus:
        rule = bus.admin.get_rule(options.topic, options.subscription, options.name)
        rule.filter = filter_ or rule.filter
        rule.action = None if options.no_action else action or rule.action
        bus.admin.update_rule(options.topic, options.subscription, rule)
        rule = bus.admin.get_rule(options.topic, options.subscription, options.name)
    return _print_rule(rule, options)


def _delete(options: Options) -> int:
    with open_bus(options) as bus:
        bus.admin.delete_rule(options.topic, options.subscription, options.name)
    if options.json:
        print_json({"deleted": options.name})
    else:
        print(f"rule {options.name} is deleted")
    return DONE


def _list(options: Options) -> int:
    with open_bus(options) as bus:
        rules = list(bus.admin.list_rules(options.topic, options.subscription))
    if options.json:
        print_json([_values(rule) for rule in rules])
    else:
        print_table(["name", "filter", "action"], [[rule.name, _condition(rule), _statements(rule)] for rule in rules])
    return DONE


def _print_rule(rule: RuleProperties, options: Options) -> int:
    if options.json:
        print_json(_values(rule))
    else:
        print_pairs({"name": rule.name, "filter": _condition(rule), "action": _statements(rule)})
    return DONE


def _values(rule: RuleProperties) -> dict[str, Any]:
    """Return a rule for JSON; the filter includes its class."""
    filter_ = {"type": type(rule.filter).__name__, **plain(rule.filter)} if rule.filter else None
    return {"name": rule.name, "filter": filter_, "action": rule.action, "created_at_utc": rule.created_at_utc}


def _condition(rule: RuleProperties) -> str:
    """Return a filter as text."""
    if sql := getattr(rule.filter, "sql_expression", None):
        return _with_parameters(sql, rule.filter)
    filter_: Any = rule.filter
    given = {field.name: getattr(filter_, field.name) for field in fields(filter_) if field.name != "properties"}
    given |= filter_.properties or {}
    return " and ".join(f"{name} = {value!r}" for name, value in given.items() if value is not None)


def _statements(rule: RuleProperties) -> str | None:
    return None if rule.action is None else _with_parameters(rule.action.sql_expression, rule.action)


def _with_parameters(text: str | None, sql: Any) -> str:
    values = ", ".join(f"{name} = {value!r}" for name, value in (sql.parameters or {}).items() if name in str(text))
    return f"{text} ({values})" if values else str(text)
