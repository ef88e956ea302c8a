# SPDX-License-Identifier: Apache-2.0
"""The classes of rules and their native forms; their effect is in contract/test_rules.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from oxbus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from oxbus.management._rule_translation import native_rule, rule_properties

VALUES: dict[str, Any] = {
    "text": "t",
    "int": 1,
    "float": 1.5,
    "bool": True,
    "time": datetime(2026, 3, 1, tzinfo=UTC),
    "duration": timedelta(seconds=1),
    "id": UUID(int=1),
    "none": None,
}


def rule(filter_: Any = None, action: Any = None, name: Any = "r") -> RuleProperties:
    """A rule that is not created yet."""
    return RuleProperties(name, filter=filter_, action=action, created_at_utc=None)


@pytest.mark.parametrize(
    ("filter_", "native"),
    [
        (None, {"kind": "true"}),
        (TrueRuleFilter(), {"kind": "true"}),
        (FalseRuleFilter(), {"kind": "false"}),
        (SqlRuleFilter("a = 1"), {"kind": "sql", "expression": "a = 1", "parameters": {}}),
        (SqlRuleFilter("a = @text", VALUES), {"kind": "sql", "expression": "a = @text", "parameters": VALUES}),
        (CorrelationRuleFilter(label="l"), {"kind": "correlation", "label": "l", "properties": {}}),
        (
            CorrelationRuleFilter(message_id="m", to="t", properties=VALUES),
            {"kind": "correlation", "message_id": "m", "to": "t", "properties": VALUES},
        ),
    ],
    ids=repr,
)
def test_filters_convert_to_native_and_back(filter_: Any, native: dict[str, Any]) -> None:
    """Each kind has its native form; values are passed unchanged (B-355, B-356, B-374)."""
    assert native_rule(rule(filter_)) == {"name": "r", "filter": native, "action": None}
    shown = rule_properties({"name": "r", "filter": native, "action": None, "created_at_ms": 1_500})
    assert type(shown.filter) is type(filter_ or TrueRuleFilter())
    assert native_rule(shown)["filter"] == native
    assert shown.created_at_utc == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_actions_convert_to_native_and_back() -> None:
    """An action has an expression and parameters (B-376)."""
    action = {"expression": "SET a = @text", "parameters": VALUES}
    assert native_rule(rule(action=SqlRuleAction("SET a = @text", VALUES)))["action"] == action
    shown = rule_properties({"name": "r", "filter": {"kind": "true"}, "action": action, "created_at_ms": 0})
    assert shown.action == SqlRuleAction("SET a = @text", VALUES)


def test_true_and_false_are_sql_filters() -> None:
    """The filters have the SDK's expressions and equal only the same class (B-355)."""
    assert isinstance(TrueRuleFilter(), SqlRuleFilter)
    assert (TrueRuleFilter().sql_expression, FalseRuleFilter().sql_expression) == ("1=1", "1>1")
    assert TrueRuleFilter() == TrueRuleFilter()
    assert TrueRuleFilter() != SqlRuleFilter("1=1")
    assert SqlRuleFilter("a = 1").requires_preprocessing


def test_rule_reads_and_writes_like_a_mapping() -> None:
    """Attributes and items are the same, and unknown names are rejected."""
    properties = rule(TrueRuleFilter())
    properties["filter"] = FalseRuleFilter()
    assert properties.filter == properties["filter"] == FalseRuleFilter()
    assert list(properties) == ["name", "filter", "action", "created_at_utc"]
    with pytest.raises(KeyError):
        properties["filters"] = None
    assert native_rule(dict(properties)) == native_rule(properties)
    with pytest.raises(TypeError, match="action"):
        native_rule({"name": "r", "filter": None, "created_at_utc": None})


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (rule("a = 1"), r"SqlRuleFilter\('"),
        (rule(SqlRuleAction("SET a = 1")), "filter must be"),
        (rule(SqlRuleFilter()), "sql_expression of a SqlRuleFilter"),
        (rule(SqlRuleFilter("a", {"@p": b""})), r"parameters\['@p'\]"),  # type: ignore[dict-item]
        (rule(SqlRuleFilter("a", {1: 1})), "a name in parameters"),  # type: ignore[dict-item]
        (rule(CorrelationRuleFilter(label=1)), "label must be a str"),  # type: ignore[arg-type]
        (rule(CorrelationRuleFilter(properties={"a": [1]})), r"properties\['a'\]"),  # type: ignore[dict-item]
        (rule(action="SET a = 1"), r"SqlRuleAction\('"),
        (rule(action=SqlRuleAction()), "sql_expression of a SqlRuleAction"),
        (rule(name=1), "name of a rule"),
    ],
)
def test_wrong_types_are_rejected_early(wrong: RuleProperties, match: str) -> None:
    """The error comes before any call to the namespace (B-359)."""
    with pytest.raises(TypeError, match=match):
        native_rule(wrong)
