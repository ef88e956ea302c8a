# SPDX-License-Identifier: Apache-2.0
"""Messages in output: in full as JSON, or one line with a preview of the body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._output import printable

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage

_PREVIEW: Final = 40
"""Characters of a body in a table."""
_FIELDS: Final = (
    "sequence_number",
    "partition_id",
    "enqueued_time_utc",
    "state",
    "delivery_count",
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
    "time_to_live",
    "expires_at_utc",
    "scheduled_enqueue_time_utc",
    "locked_until_utc",
    "enqueued_sequence_number",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
    "application_properties",
)


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    """Return the body; empty for a message without one."""
    return b"" if message.body is None else b"".join(message.body)


def as_values(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Return all fields of a message by name; a body that is not UTF-8 is `body_base64`."""
    values: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(message, name)
        # The states are numbers; JSON gets their names.
        values[name] = value.name.lower() if name == "state" else value
    body = body_of(message)
    try:
        values["body"] = None if message.body is None else body.decode()
    except UnicodeDecodeError:
        values["body_base64"] = body
    return values


def preview(message: ServiceBusReceivedMessage) -> str:
    """Return the beginning of the body on one line."""
    body = body_of(message)
    # A character has at most four bytes.
    text = body[: 4 * _PREVIEW].decode(errors="backslashreplace")
    short = printable(text[:_PREVIEW])
    return short if len(body) <= len(text.encode()) and len(text) <= _PREVIEW else f"{short}…"
