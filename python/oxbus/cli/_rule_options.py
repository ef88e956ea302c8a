# SPDX-License-Identifier: Apache-2.0
"""The filter and the action of a rule as command-line options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._exit_codes import UsageError
from oxbus.cli._values import named_value

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

_EQUAL: Final = {
    "correlation_id": "correlation id",
    "message_id": "message id",
    "to": "destination",
    "reply_to": "address for answers",
    "label": "subject",
    "session_id": "session id",
    "reply_to_session_id": "session id for answers",
    "content_type": "content type",
}
"""The fields of a correlation filter."""


def add_rule_options(parser: ArgumentParser) -> None:
    """Add the options of a rule."""
    condition = parser.add_argument_group(
        "filter", "without a filter the rule selects every message"
    ).add_mutually_exclusive_group()
    condition.add_argument("--sql", metavar="CONDITION", help="such as \"amount > 100 AND sys.Label = 'order'\"")
    condition.add_argument("--true", action="store_true", help="every message")
    condition.add_argument("--false", action="store_true", help="no message")
    equal = parser.add_argument_group("filter on equality", "a message must equal all given values")
    for name, description in _EQUAL.items():
        flags = ["--" + name.replace("_", "-")]
        if name == "label":
            flags.append("--subject")
        equal.add_argument(*flags, dest=name, metavar="TEXT", help=f"its {description}")
    equal.add_argument(
        "--property",
        dest="properties",
        type=named_value,
        action="append",
        metavar="NAME[:TYPE]=VALUE",
        help="an application property; repeatable",
    )
    action = parser.add_argument_group("action")
    action.add_argument("--action", metavar="STATEMENTS", help='such as "SET urgent = TRUE; REMOVE draft"')
    add_parameters(action)


def add_parameters(parser: Any) -> None:
    """Add the option for the values of SQL parameters."""
    parser.add_argument(
        "--parameter",
        dest="parameters",
        type=named_value,
        action="append",
        metavar="@NAME[:TYPE]=VALUE",
        help="the value of an @ name in a SQL text; repeatable",
    )


def rule_filter(options: Options) -> SqlRuleFilter | CorrelationRuleFilter | None:
    """Return the given filter, or None.

    Raises:
        UsageError: There are two filters.
    """
    from oxbus.management import CorrelationRuleFilter, FalseRuleFilter, TrueRuleFilter  # noqa: PLC0415 -- not needed for `--help`

    equal: dict[str, Any] = {name: getattr(options, name) for name in _EQUAL if getattr(options, name) is not None}
    if options.properties:
        equal["properties"] = dict(options.properties)
    if equal and (options.sql is not None or options.true or options.false):
        raise UsageError("a rule has one filter: omit --sql, --true and --false, or the equality options")
    if equal:
        return CorrelationRuleFilter(**equal)
    if options.sql is not None:
        return sql_filter(options.sql, options)
    if options.true:
        return TrueRuleFilter()
    return FalseRuleFilter() if options.false else None


def rule_action(options: Options) -> SqlRuleAction | None:
    """Return the given action, or None."""
    from oxbus.management import SqlRuleAction  # noqa: PLC0415 -- not needed for `--help`

    return None if options.action is None else SqlRuleAction(options.action, _parameters(options))


def sql_filter(condition: str, options: Options) -> SqlRuleFilter:
    """Return a SQL filter with its parameters."""
    from oxbus.management import SqlRuleFilter  # noqa: PLC0415 -- not needed for `--help`

    return SqlRuleFilter(condition, _parameters(options))


def _parameters(options: Options) -> dict[str, Any]:
    """Return the parameters, each name with its @."""
    return {"@" + name.removeprefix("@"): value for name, value in options.parameters or ()}
