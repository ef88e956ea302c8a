# SPDX-License-Identifier: Apache-2.0
"""Descriptions of rules: XML for a server, dicts as of the native namespace.

Source: docs/behaviour.md B-345 to B-360, B-462.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.management._atom._values import milliseconds_of, typed_text, typed_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus.management._atom._xml import Element, XmlWriter

_COMPATIBILITY_LEVEL: Final = "20"
"""An element of every SQL text; the service accepts only this value."""

_SQL_OF: Final = {"true": ("TrueFilter", "1=1"), "false": ("FalseFilter", "1=0")}

_SYSTEM_PROPERTIES: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}
"""Elements of a correlation filter, in the order of the data contract."""


def write_rule(rule: Mapping[str, Any], out: XmlWriter) -> None:
    """Write the contents of a rule.

    Raises:
        ValueError: A value cannot be represented.
    """
    _write_filter(rule["filter"], out)
    action = rule["action"]
    if action is None:
        out.open("Action", 'i:type="EmptyRuleAction"')
        out.close("Action")
    else:
        _write_sql("Action", "SqlRuleAction", action["expression"], action["parameters"], out)
    out.text("Name", rule["name"])


def _write_filter(filter_: Mapping[str, Any], out: XmlWriter) -> None:
    kind = filter_["kind"]
    if kind in _SQL_OF:
        _write_sql("Filter", *_SQL_OF[kind], {}, out)
    elif kind == "sql":
        _write_sql("Filter", "SqlFilter", filter_["expression"], filter_["parameters"], out)
    else:
        out.open("Filter", 'i:type="CorrelationFilter"')
        for element, name in _SYSTEM_PROPERTIES.items():
            if (text := filter_.get(name)) is not None:
                out.text(element, text)
        _write_values("Properties", filter_["properties"], out)
        out.close("Filter")


def _write_sql(element: str, kind: str, expression: str, parameters: Mapping[str, Any], out: XmlWriter) -> None:
    out.open(element, f'i:type="{kind}"')
    out.text("SqlExpression", expression)
    out.text("CompatibilityLevel", _COMPATIBILITY_LEVEL)
    _write_values("Parameters", parameters, out)
    out.close(element)


def _write_values(element: str, values: Mapping[str, Any], out: XmlWriter) -> None:
    if not values:
        return
    out.open(element)
    for name, value in values.items():
        out.open("KeyValueOfstringanyType")
        out.text("Key", name)
        if value is not None:
            schema, kind, text = typed_text(value)
            out.text("Value", text, f'i:type="v:{kind}" xmlns:v="{schema}"')
        out.close("KeyValueOfstringanyType")
    out.close(element)


def read_rule(name: str, description: Element) -> dict[str, Any]:
    """Read a rule.

    Raises:
        ValueError: A value is malformed.
    """
    action = description.child("Action")
    return {
        "name": description.text_of("Name") or name,
        "filter": _filter_of(description.child("Filter")),
        "action": None if action is None or action.type != "SqlRuleAction" else _sql_of(action),
        "created_at_ms": milliseconds_of(description.text_of("CreatedAt")),
    }


def _filter_of(element: Element | None) -> dict[str, Any]:
    match "TrueFilter" if element is None else element.type:
        case "TrueFilter":
            return {"kind": "true"}
        case "FalseFilter":
            return {"kind": "false"}
        case "SqlFilter" if element is not None:
            return {"kind": "sql", **_sql_of(element)}
        case "CorrelationFilter" if element is not None:
            given = {name: element.text_of(known) or None for known, name in _SYSTEM_PROPERTIES.items()}
            return {"kind": "correlation", **given, "properties": _values_of(element.child("Properties"))}
        case kind:
            raise ValueError(f"a filter has an unknown type: `{kind}`")


def _sql_of(element: Element) -> dict[str, Any]:
    return {"expression": element.text_of("SqlExpression") or "", "parameters": _values_of(element.child("Parameters"))}


def _values_of(element: Element | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in () if element is None else element.children:
        value = item.child("Value")
        values[item.text_of("Key") or ""] = None if value is None else typed_value(value.type, value.text)
    return values
