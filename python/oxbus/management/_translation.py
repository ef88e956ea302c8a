# SPDX-License-Identifier: Apache-2.0
"""Conversion of entity options and counts between the public classes and the native dicts."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oxbus._options import unknown_option
from oxbus.management._authorization import AuthorizationRule
from oxbus.management._counts import PartitionRuntimeProperties
from oxbus.management._durations import to_milliseconds, to_timedelta
from oxbus.management._enums import EntityAvailabilityStatus, EntityStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

Model = TypeVar("Model", bound="Mapping[str, Any]")

DURATION_OPTIONS: Final = (
    "auto_delete_on_idle",
    "default_message_time_to_live",
    "duplicate_detection_history_time_window",
    "lock_duration",
)

FORWARD_OPTIONS: Final = ("forward_to", "forward_dead_lettered_messages_to")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def native_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert entity options to a native dict; options that are None are omitted."""
    native = {name: value for name, value in options.items() if value is not None}
    for name in DURATION_OPTIONS:
        if name in native:
            native[name] = to_milliseconds(name, native[name])
    if "status" in native:
        native["status"] = EntityStatus(native["status"]).value
    if "authorization_rules" in native:
        native["authorization_rules"] = [asdict(rule) for rule in native["authorization_rules"]]
    return native


def changed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the options of an update to a native dict; None keeps an option, except that it ends forwarding."""
    native = native_options(options)
    return native | {name: "" for name in FORWARD_OPTIONS if name in options and options[name] is None}


def property_values(model: type[Any], native: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a native dict to the field values of a data class; a missing value is None."""
    values = {name: native.get(name) for name in _names(model)}
    for name in DURATION_OPTIONS:
        if (duration := values.get(name)) is not None:
            values[name] = to_timedelta(duration)
    values["status"] = EntityStatus(values["status"])
    values["availability_status"] = EntityAvailabilityStatus(values["availability_status"])
    if "authorization_rules" in values:
        values["authorization_rules"] = [to_authorization_rule(rule) for rule in values["authorization_rules"] or ()]
    return values


def to_authorization_rule(native: Mapping[str, Any]) -> AuthorizationRule:
    """Convert a native dict to an authorization rule."""
    values = dict(native)
    created, modified = values.pop("created_at_ms"), values.pop("modified_at_ms")
    return AuthorizationRule(**values, created_at_utc=utc(created), modified_at_utc=utc(modified))


def runtime_values(model: type[Any], native: Mapping[str, Any]) -> dict[str, Any]:
    """Convert native counts and times to the field values of a data class; missing values are omitted."""
    values = dict(native)
    for name in ("created_at", "updated_at", "accessed_at"):
        values[f"{name}_utc"] = _use_time(native[f"{name}_ms"])
    values["partitions"] = tuple(PartitionRuntimeProperties(**partition) for partition in native["partitions"])
    values["availability_status"] = EntityAvailabilityStatus(native["availability_status"])
    return {name: values[name] for name in _names(model) if name in values}


def utc(milliseconds: int | None) -> datetime | None:
    """Convert milliseconds since 1970 to an aware UTC time; None stays None."""
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def required_text(parameter: str, value: object) -> str:
    """Return a name that must be a str.

    Raises:
        TypeError: The value is not a str. For a properties object the text asks for its name.
    """
    if isinstance(value, str):
        return value
    hint = ": give its name, `properties.name`" if hasattr(value, "name") else ""
    raise TypeError(f"{parameter} must be a str, not {type(value).__name__}{hint}")


def _names(model: type[Any]) -> list[str]:
    return [field.name for field in fields(model)]


def _use_time(milliseconds: int | None) -> datetime:
    # The service reports year 1 for an entity that was never used (B-388).
    return utc(milliseconds) or datetime.min.replace(tzinfo=UTC)


def with_changes(model: type[Model], call: str, given: Model | Mapping[str, Any], changes: Mapping[str, Any]) -> Model:
    """Return the properties of an update, with the changes that its keywords name.

    Args:
        model: The class of the properties.
        call: The call as written, for the error of an unknown keyword.
        given: The properties, or a mapping with all of their names.
        changes: The keywords.

    Raises:
        TypeError: A mapping lacks a name or has an unknown one, or a keyword is unknown.
    """
    if isinstance(given, model) and not changes:
        return given
    known = list(_names(model))
    for name in changes:
        if name not in known:
            raise unknown_option(call, name, known)
    values: Mapping[str, Any] = dict(given.items()) if isinstance(given, model) else given
    return model(**{**values, **changes})
