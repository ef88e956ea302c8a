# SPDX-License-Identifier: Apache-2.0
"""Descriptions of queues, topics, subscriptions and namespaces: XML for a server, dicts as of the native namespace.

Elements are written in the order of the service's data contracts, which it requires; it is that of the SDK for .NET.
They are read in any order.

Source: docs/behaviour.md B-022 to B-033, B-388 to B-392, B-460, B-461.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from oxbus.exceptions import InvalidOperationError
from oxbus.management._atom._rules import write_rule
from oxbus.management._atom._values import duration_of, duration_text, milliseconds_of
from oxbus.management._enums import EntityAvailabilityStatus, EntityStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import Enum

    from oxbus.management._atom._xml import Element, XmlWriter

Kind: TypeAlias = Literal["duration", "number", "flag", "text", "path", "rules", "rule"]

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"

FIRST_RULE: Final = "rule"
"""The option of a new subscription for its first rule."""

_COUNTS: Final = {
    "ActiveMessageCount": "active_message_count",
    "DeadLetterMessageCount": "dead_letter_message_count",
    "ScheduledMessageCount": "scheduled_message_count",
    "TransferMessageCount": "transfer_message_count",
    "TransferDeadLetterMessageCount": "transfer_dead_letter_message_count",
}
_TIMES: Final = {"CreatedAt": "created_at_ms", "UpdatedAt": "updated_at_ms", "AccessedAt": "accessed_at_ms"}
_NUMBERS: Final = {
    "SizeInBytes": "size_in_bytes",
    "MessageCount": "total_message_count",
    "SubscriptionCount": "subscription_count",
}
_FILTERS: Final = {"SqlFilterCount": "sql_filter_count", "CorrelationFilterCount": "correlation_filter_count"}
"""Not every server reports these."""
_TYPES: Final = {"duration": int, "number": int, "flag": bool, "text": str, "path": str}
_KEYS: Final = {"KeyName": "key_name", "PrimaryKey": "primary_key", "SecondaryKey": "secondary_key"}
_RULE_DEFAULTS: Final = {
    "type": "SharedAccessAuthorizationRule",
    "claim_type": "SharedAccessKey",
    "claim_value": "None",
}


@dataclass(frozen=True, slots=True)
class EntityDescription:
    """How a kind of entity is described.

    Attributes:
        element: The name of its element.
        options: The options that a client can set: element, name, kind of value; in the order of the data contract.
    """

    element: str
    options: tuple[tuple[str, str, Kind], ...]


QUEUE: Final = EntityDescription(
    "QueueDescription",
    (
        ("LockDuration", "lock_duration", "duration"),
        ("MaxSizeInMegabytes", "max_size_in_megabytes", "number"),
        ("RequiresDuplicateDetection", "requires_duplicate_detection", "flag"),
        ("RequiresSession", "requires_session", "flag"),
        ("DefaultMessageTimeToLive", "default_message_time_to_live", "duration"),
        ("DeadLetteringOnMessageExpiration", "dead_lettering_on_message_expiration", "flag"),
        ("DuplicateDetectionHistoryTimeWindow", "duplicate_detection_history_time_window", "duration"),
        ("MaxDeliveryCount", "max_delivery_count", "number"),
        ("EnableBatchedOperations", "enable_batched_operations", "flag"),
        ("AuthorizationRules", "authorization_rules", "rules"),
        ("Status", "status", "text"),
        ("ForwardTo", "forward_to", "path"),
        ("UserMetadata", "user_metadata", "text"),
        ("AutoDeleteOnIdle", "auto_delete_on_idle", "duration"),
        ("EnablePartitioning", "enable_partitioning", "flag"),
        ("ForwardDeadLetteredMessagesTo", "forward_dead_lettered_messages_to", "path"),
        ("EnableExpress", "enable_express", "flag"),
        ("MaxMessageSizeInKilobytes", "max_message_size_in_kilobytes", "number"),
    ),
)
TOPIC: Final = EntityDescription(
    "TopicDescription",
    (
        ("DefaultMessageTimeToLive", "default_message_time_to_live", "duration"),
        ("MaxSizeInMegabytes", "max_size_in_megabytes", "number"),
        ("RequiresDuplicateDetection", "requires_duplicate_detection", "flag"),
        ("DuplicateDetectionHistoryTimeWindow", "duplicate_detection_history_time_window", "duration"),
        ("EnableBatchedOperations", "enable_batched_operations", "flag"),
        ("FilteringMessagesBeforePublishing", "filtering_messages_before_publishing", "flag"),
        ("AuthorizationRules", "authorization_rules", "rules"),
        ("Status", "status", "text"),
        ("UserMetadata", "user_metadata", "text"),
        ("SupportOrdering", "support_ordering", "flag"),
        ("AutoDeleteOnIdle", "auto_delete_on_idle", "duration"),
        ("EnablePartitioning", "enable_partitioning", "flag"),
        ("EnableExpress", "enable_express", "flag"),
        ("MaxMessageSizeInKilobytes", "max_message_size_in_kilobytes", "number"),
    ),
)
SUBSCRIPTION: Final = EntityDescription(
    "SubscriptionDescription",
    (
        ("LockDuration", "lock_duration", "duration"),
        ("RequiresSession", "requires_session", "flag"),
        ("DefaultMessageTimeToLive", "default_message_time_to_live", "duration"),
        ("DeadLetteringOnMessageExpiration", "dead_lettering_on_message_expiration", "flag"),
        ("DeadLetteringOnFilterEvaluationExceptions", "dead_lettering_on_filter_evaluation_exceptions", "flag"),
        ("DefaultRuleDescription", FIRST_RULE, "rule"),
        ("MaxDeliveryCount", "max_delivery_count", "number"),
        ("EnableBatchedOperations", "enable_batched_operations", "flag"),
        ("Status", "status", "text"),
        ("ForwardTo", "forward_to", "path"),
        ("UserMetadata", "user_metadata", "text"),
        ("ForwardDeadLetteredMessagesTo", "forward_dead_lettered_messages_to", "path"),
        ("AutoDeleteOnIdle", "auto_delete_on_idle", "duration"),
    ),
)
FORWARDING: Final = ("forward_to", "forward_dead_lettered_messages_to")


def write_options(kind: EntityDescription, options: Mapping[str, Any], namespace: str, out: XmlWriter) -> None:
    """Write the options of an entity.

    Args:
        kind: The kind of entity.
        options: The options as for the native namespace; a missing one is not written.
        namespace: The address of the namespace, which destinations of forwarding begin with.
        out: Where to write.

    Raises:
        InvalidOperationError: A server has no such option.
        TypeError: An option has the wrong type.
        ValueError: A number or a duration is negative, or a text has a character that XML cannot represent.
    """
    _check_known(kind, options)
    for element, name, value_kind in kind.options:
        value = options.get(name)
        if value is None or (value_kind == "path" and value == ""):
            continue
        if value_kind == "rules":
            _write_authorization_rules(value, out)
        elif value_kind == "rule":
            out.open(element)
            write_rule(value, out)
            out.close(element)
        else:
            _check_value(name, value_kind, value)
            out.text(element, _text(value_kind, value, namespace))


def forward_address(namespace: str, path: str) -> str:
    """Return the address of a destination; a full address stays as it is."""
    return path if "://" in path else f"{namespace}/{path}"


def _check_known(kind: EntityDescription, options: Mapping[str, Any]) -> None:
    known = {name for _, name, _ in kind.options}
    for name, value in options.items():
        # False is the default of the only such option.
        if name not in known and value:
            raise InvalidOperationError(
                f"{name} cannot be set over a connection: the administration protocol of Service Bus does not have it; "
                "set it with a client of the namespace in its own process",
                condition="amqp:not-implemented",
            )


def _check_value(name: str, kind: Kind, value: object) -> None:
    expected = _TYPES[kind]
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        article = "an" if expected is int else "a"
        raise TypeError(f"{name} must be {article} {expected.__name__}, not {type(value).__name__}")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{name} must not be negative; check it: {name}={value}{' ms' if kind == 'duration' else ''}")


def _text(kind: Kind, value: Any, namespace: str) -> str:
    match kind:
        case "duration":
            return duration_text(value)
        case "flag":
            return "true" if value else "false"
        case "path":
            return forward_address(namespace, value)
    return str(value)


def _write_authorization_rules(rules: list[Mapping[str, Any]], out: XmlWriter) -> None:
    out.open("AuthorizationRules")
    for rule in rules:
        given = {name: rule.get(name) or default for name, default in _RULE_DEFAULTS.items()}
        out.open("AuthorizationRule", f'i:type="{_RULE_DEFAULTS["type"]}"')
        out.text("ClaimType", str(given["claim_type"]))
        out.text("ClaimValue", str(given["claim_value"]))
        out.open("Rights")
        for right in rule.get("rights") or ():
            out.text("AccessRights", str(getattr(right, "value", right)))
        out.close("Rights")
        for element, name in _KEYS.items():
            if (text := rule.get(name)) is not None:
                out.text(element, str(text))
        out.close("AuthorizationRule")
    out.close("AuthorizationRules")


def read_entity(kind: EntityDescription, name: str, description: Element) -> dict[str, Any]:
    """Read options, counts and times of an entity; None for what the server does not report.

    Raises:
        ValueError: A value is malformed.
    """
    found: dict[str, Any] = {"name": name}
    for element, option, value_kind in kind.options:
        found[option] = _option(value_kind, description.child(element))
    found["status"] = _known(EntityStatus, found["status"])
    found["availability_status"] = _known(EntityAvailabilityStatus, description.text_of("EntityAvailabilityStatus"))
    details = description.child("CountDetails")
    for element, count in _COUNTS.items():
        found[count] = _number(None if details is None else details.text_of(element)) or 0
    for element, count in _NUMBERS.items():
        found[count] = _number(description.text_of(element)) or 0
    for element, count in _FILTERS.items():
        found[count] = _number(description.text_of(element))
    for element, time in _TIMES.items():
        found[time] = milliseconds_of(description.text_of(element))
    # What only the namespace's own process can tell.
    return found | {"locked_message_count": None, "deferred_message_count": None, "partitions": ()}


def _known(choices: type[Enum], text: str | None) -> str:
    """Return a status that the client knows; a service may have new ones."""
    return text if text in {choice.value for choice in choices} and text is not None else "Unknown"


def _option(kind: Kind, element: Element | None) -> Any:
    if kind == "rules":
        return [] if element is None else [_authorization_rule(rule) for rule in element.all("AuthorizationRule")]
    if element is None or kind == "rule":
        return None
    if kind == "text":
        return element.text
    text = element.text.strip()
    return _READERS[kind](text) if text else None


def _path(address: str) -> str:
    """Return the entity of an address such as ``sb://host/entity``."""
    _, separator, rest = address.partition("://")
    return unquote(rest.partition("/")[2].rstrip("/")) if separator else address


_READERS: Final[dict[Kind, Callable[[str], Any]]] = {
    "duration": duration_of,
    "number": int,
    "flag": lambda text: text.lower() in {"true", "1"},
    "path": _path,
}


def _number(text: str | None) -> int | None:
    return None if text is None or not text.strip() else int(text)


def _authorization_rule(rule: Element) -> dict[str, Any]:
    rights = rule.child("Rights")
    return {
        "type": rule.type or None,
        "claim_type": rule.text_of("ClaimType"),
        "claim_value": rule.text_of("ClaimValue"),
        "rights": [] if rights is None else [right.text for right in rights.all("AccessRights")],
        "created_at_ms": milliseconds_of(rule.text_of("CreatedTime")),
        "modified_at_ms": milliseconds_of(rule.text_of("ModifiedTime")),
        "key_name": rule.text_of("KeyName"),
        "primary_key": rule.text_of("PrimaryKey"),
        "secondary_key": rule.text_of("SecondaryKey"),
    }


def read_namespace(name: str, description: Element) -> dict[str, Any]:
    """Read the properties of a namespace.

    Raises:
        ValueError: A value is malformed.
    """
    return {
        "name": description.text_of("Name") or name,
        "alias": description.text_of("Alias") or None,
        "created_at_ms": milliseconds_of(description.text_of("CreatedTime")),
        "messaging_sku": description.text_of("MessagingSKU") or "",
        "messaging_units": _number(description.text_of("MessagingUnits")),
        "namespace_type": description.text_of("NamespaceType") or "Messaging",
        "updated_at_ms": milliseconds_of(description.text_of("ModifiedTime")),
    }
