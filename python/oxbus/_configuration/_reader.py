# SPDX-License-Identifier: Apache-2.0
"""Parsing of a configuration file. Nothing here touches a namespace."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from oxbus._configuration._declared import Configuration, DeclaredEntity, DeclaredRule
from oxbus._configuration._sections import Section
from oxbus.management._rules import CorrelationRuleFilter, RuleProperties, SqlRuleAction, SqlRuleFilter

_OPTIONS: Final = {
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_message_expiration", Section.flag),
    "DefaultMessageTimeToLive": ("default_message_time_to_live", Section.duration),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_detection_history_time_window", Section.duration),
    "EnablePartitioning": ("enable_partitioning", Section.flag),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_lettered_messages_to", Section.text),
    "ForwardTo": ("forward_to", Section.text),
    "LockDuration": ("lock_duration", Section.duration),
    "MaxDeliveryCount": ("max_delivery_count", Section.number),
    "RequiresDuplicateDetection": ("requires_duplicate_detection", Section.flag),
    "RequiresSession": ("requires_session", Section.flag),
}
"""The keys under ``Properties``, with the option that each sets and its parser."""

_TOPIC_KEYS: Final = (
    "DefaultMessageTimeToLive",
    "DuplicateDetectionHistoryTimeWindow",
    "EnablePartitioning",
    "RequiresDuplicateDetection",
)
_TOPIC_ONLY_KEYS: Final = ("DuplicateDetectionHistoryTimeWindow", "EnablePartitioning", "RequiresDuplicateDetection")
"""Keys that a subscription inherits from its topic."""
_KEYS: Final = {
    "queue": tuple(_OPTIONS),
    "topic": _TOPIC_KEYS,
    "subscription": tuple(key for key in _OPTIONS if key not in _TOPIC_ONLY_KEYS),
}

_CORRELATION: Final = {
    "ContentType": "content_type",
    "CorrelationId": "correlation_id",
    "Label": "label",
    "MessageId": "message_id",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "SessionId": "session_id",
    "To": "to",
}


def read_configuration(config: object) -> Configuration:
    """Read a configuration.

    Args:
        config: The path of a JSON file, or its content as a mapping.

    Raises:
        ValueError: The file is not valid JSON, or has an unknown key or a value of the wrong kind; the text names the
            place.
        TypeError: `config` is neither a path nor a mapping.
        OSError: The file cannot be read.
    """
    if isinstance(config, str | os.PathLike):
        config = _load(Path(config))
    elif not isinstance(config, Mapping):
        raise TypeError(
            f"config must be the path of a config.json, or its content as a dict, not {type(config).__name__}"
        )
    user = Section(config, "", ("UserConfig", "$schema")).required_section("UserConfig", ("Namespaces", "Logging"))
    namespaces = user.sections("Namespaces", ("Name", "Queues", "Topics"))
    if len(namespaces) != 1:
        raise ValueError(
            f"config: UserConfig.Namespaces has {len(namespaces)} namespaces; oxbus.Namespace is one: keep one"
        )
    (namespace,) = namespaces
    queues = [
        _entity("queue", section, section.text("Name"))
        for section in namespace.sections("Queues", ("Name", "Properties"))
    ]
    topics = [
        declared
        for section in namespace.sections("Topics", ("Name", "Properties", "Subscriptions"))
        for declared in _topic(section)
    ]
    entities = (*queues, *topics)
    _check_unique([("/".join(entity.names), entity.location) for entity in entities])
    return Configuration(entities)


def _load(path: Path) -> object:
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=_object)
    except ValueError as error:
        raise ValueError(f"config: `{path}` is not valid JSON: {error}") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; reject a duplicate key, whose first value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)} occurs twice")
    return found


def _topic(section: Section) -> list[DeclaredEntity]:
    name = section.text("Name")
    subscriptions = section.sections("Subscriptions", ("Name", "Properties", "Rules"))
    return [_entity("topic", section, name), *(_subscription(name, part) for part in subscriptions)]


def _subscription(topic: str, section: Section) -> DeclaredEntity:
    rules = tuple(_rule(part) for part in section.sections("Rules", ("Name", "Properties")))
    _check_unique([(rule.name, rule.location) for rule in rules])
    return _entity("subscription", section, section.text("Name"), topic, rules)


def _entity(
    kind: str, section: Section, name: str, topic: str | None = None, rules: tuple[DeclaredRule, ...] = ()
) -> DeclaredEntity:
    properties = section.section("Properties", _KEYS[kind])
    options: dict[str, Any] = {
        option: read(properties, key) for key, (option, read) in _OPTIONS.items() if key in properties
    }
    return DeclaredEntity(section.path, name, kind, options, topic, rules)


def _rule(section: Section) -> DeclaredRule:
    name = section.text("Name")
    properties = section.required_section("Properties", ("FilterType", "CorrelationFilter", "SqlFilter", "Action"))
    kind = properties.one_of("FilterType", ("Correlation", "Sql"))
    other = "SqlFilter" if kind == "Correlation" else "CorrelationFilter"
    if other in properties:
        raise ValueError(
            f"config: {properties.location(other)} does not go with the FilterType {kind}: remove one of them"
        )
    action = None
    if "Action" in properties:
        action = SqlRuleAction(properties.section("Action", ("SqlExpression",)).text("SqlExpression"), {})
    filter_ = _correlation(properties) if kind == "Correlation" else _sql(properties)
    return DeclaredRule(section.path, name, RuleProperties(name, filter=filter_, action=action, created_at_utc=None))


def _sql(properties: Section) -> SqlRuleFilter:
    return SqlRuleFilter(properties.required_section("SqlFilter", ("SqlExpression",)).text("SqlExpression"), {})


def _correlation(properties: Section) -> CorrelationRuleFilter:
    section = properties.required_section("CorrelationFilter", (*_CORRELATION, "Properties"))
    given = {field: section.text(key) for key, field in _CORRELATION.items() if key in section}
    return CorrelationRuleFilter(**given, properties=section.values("Properties"))


def _check_unique(locations: list[tuple[str, str]]) -> None:
    """Reject a name that is declared twice; names are case-insensitive (docs/behaviour.md B-018)."""
    first: dict[str, str] = {}
    for name, location in locations:
        known = first.setdefault(name.lower(), location)
        if known != location:
            raise ValueError(f"config: {location} has the same name as {known}; rename one of them: `{name}`")
