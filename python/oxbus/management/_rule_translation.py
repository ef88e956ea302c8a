# SPDX-License-Identifier: Apache-2.0
"""Conversion of rules between the public classes and the native dicts."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from oxbus.management._rules import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from oxbus.management._translation import required_text, utc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus.management._rules import RuleValue

_VALUES: Final = (str, int, float, datetime, timedelta, UUID, type(None))
_SYSTEM_PROPERTIES: Final = tuple(field.name for field in fields(CorrelationRuleFilter) if field.name != "properties")


def native_rule(rule: RuleProperties | Mapping[str, Any]) -> dict[str, Any]:
    """Convert a rule to a native dict.

    Raises:
        TypeError: A value has the wrong type, or a mapping lacks a name or has an unknown one.
    """
    properties = rule if isinstance(rule, RuleProperties) else RuleProperties(**rule)
    return {
        "name": required_text("the name of a rule", properties.name),
        "filter": _native_filter(properties.filter),
        "action": _native_action(properties.action),
    }


def rule_properties(native: Mapping[str, Any]) -> RuleProperties:
    """Convert a native dict to a rule."""
    action = native["action"]
    return RuleProperties(
        native["name"],
        filter=_filter_of(native["filter"]),
        action=None if action is None else SqlRuleAction(action["expression"], dict(action.get("parameters") or {})),
        created_at_utc=utc(native.get("created_at_ms")),
    )


def _native_filter(filter_: object) -> dict[str, Any]:
    match filter_:
        case None | TrueRuleFilter():
            return {"kind": "true"}
        case FalseRuleFilter():
            return {"kind": "false"}
        case SqlRuleFilter():
            return {"kind": "sql", **_native_sql("SqlRuleFilter", filter_)}
        case CorrelationRuleFilter():
            return {"kind": "correlation", **_native_correlation(filter_)}
    raise TypeError(
        "filter must be a SqlRuleFilter, CorrelationRuleFilter, TrueRuleFilter or FalseRuleFilter, "
        f"not {type(filter_).__name__}: for a condition write SqlRuleFilter('...')"
    )


def _native_action(action: object) -> dict[str, Any] | None:
    if action is None:
        return None
    if isinstance(action, SqlRuleAction):
        return _native_sql("SqlRuleAction", action)
    raise TypeError(
        f"action must be a SqlRuleAction or None, not {type(action).__name__}: write SqlRuleAction('SET ...')"
    )


def _native_sql(kind: str, sql: SqlRuleFilter | SqlRuleAction) -> dict[str, Any]:
    return {
        "expression": required_text(f"sql_expression of a {kind}", sql.sql_expression),
        "parameters": _native_values("parameters", sql.parameters),
    }


def _native_correlation(filter_: CorrelationRuleFilter) -> dict[str, Any]:
    given = {name: getattr(filter_, name) for name in _SYSTEM_PROPERTIES if getattr(filter_, name) is not None}
    native: dict[str, Any] = {name: required_text(name, value) for name, value in given.items()}
    return {**native, "properties": _native_values("properties", filter_.properties)}


def _native_values(parameter: str, values: Mapping[str, RuleValue] | None) -> dict[str, RuleValue]:
    native = dict(values or {})
    for name, value in native.items():
        required_text(f"a name in {parameter}", name)
        if not isinstance(value, _VALUES):
            raise TypeError(
                f"{parameter}[{name!r}] must be a str, int, float, bool, datetime, timedelta or UUID, "
                f"not {type(value).__name__}"
            )
    return native


def _filter_of(native: Mapping[str, Any]) -> SqlRuleFilter | CorrelationRuleFilter:
    match native["kind"]:
        case "true":
            return TrueRuleFilter()
        case "false":
            return FalseRuleFilter()
        case "sql":
            return SqlRuleFilter(native["expression"], dict(native.get("parameters") or {}))
        case "correlation":
            properties = dict(native.get("properties") or {})
            given = {name: native.get(name) for name in _SYSTEM_PROPERTIES}
            return CorrelationRuleFilter(**given, properties=properties)
        case kind:
            raise ValueError(f"unknown kind of filter: {kind}")
