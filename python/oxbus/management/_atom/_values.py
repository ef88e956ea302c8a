# SPDX-License-Identifier: Apache-2.0
"""Durations, times and typed values in descriptions.

Source: docs/behaviour.md B-022, B-460, B-462.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from oxbus.management._durations import NEVER, NEVER_MS, to_timedelta

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.management._rules import RuleValue

NEVER_TEXT: Final = "P10675199DT2H48M5.4775807S"
"""The longest duration of Service Bus: no limit."""

SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"
"""The XML namespace of the type guid; all other types are in `SCHEMA`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(
    rf"(-)?P(?=[\dT])(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")
_FRACTION = re.compile(r"(\.\d{6})\d+")


def duration_text(milliseconds: int) -> str:
    """Write a duration of the broker."""
    return NEVER_TEXT if milliseconds >= NEVER_MS else timedelta_text(to_timedelta(milliseconds))


def duration_of(text: str) -> int:
    """Read a duration for the broker, in milliseconds.

    Raises:
        ValueError: It is malformed.
    """
    duration = timedelta_of(text)
    return NEVER_MS if duration >= NEVER else duration // timedelta(milliseconds=1)


def timedelta_text(duration: timedelta) -> str:
    """Write a duration in days, hours, minutes and seconds."""
    if duration >= NEVER:
        return NEVER_TEXT
    sign, length = ("-", -duration) if duration < timedelta(0) else ("", duration)
    hours, rest = divmod(length.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{length.microseconds:06}".rstrip("0") if length.microseconds else ""
    days = f"{length.days}D" if length.days else ""
    return f"{sign}P{days}T{hours}H{minutes}M{seconds}{fraction}S"


def timedelta_of(text: str) -> timedelta:
    """Read a duration of days, hours, minutes and seconds.

    Raises:
        ValueError: It is malformed.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"a duration is malformed: `{text}`")
    sign, *numbers = match.groups()
    given = {unit: number for unit, number in zip(_UNITS, numbers, strict=True) if number}
    parts = {unit: float(number) if "." in number else int(number) for unit, number in given.items()}
    try:
        duration = timedelta(**parts)
    except OverflowError:
        duration = timedelta.max
    return -duration if sign else duration


def time_of(text: str) -> datetime:
    """Read a time; one without a time zone is in UTC.

    Raises:
        ValueError: It is malformed.
    """
    # Python reads six digits of a fraction, and .NET writes seven.
    time = datetime.fromisoformat(_FRACTION.sub(r"\1", text.strip()))
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def milliseconds_of(text: str | None) -> int | None:
    """Read a time as milliseconds since 1970; None for the year 1, which means never, and for a missing time.

    Raises:
        ValueError: It is malformed.
    """
    if not text or text.startswith("0001-01-01"):
        return None
    return (time_of(text) - _EPOCH) // timedelta(milliseconds=1)


def typed_text(value: RuleValue) -> tuple[str, str, str]:
    """Return XML namespace, type and text of a value in a rule.

    Raises:
        ValueError: An integer has more than 64 bits.
    """
    if isinstance(value, UUID):
        return SERIALIZATION, "guid", str(value)
    kind, text = "string", str(value)
    match value:
        case bool():
            kind, text = "boolean", text.lower()
        case int():
            if value not in _INT64:
                raise ValueError(f"an integer in a rule must have at most 64 bits: `{value}`")
            kind = "int" if value in _INT32 else "long"
        case float():
            kind, text = "double", _SPECIAL.get(text, text)
        case datetime():
            time = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            kind, text = "dateTime", time.isoformat().replace("+00:00", "Z")
        case timedelta():
            kind, text = "duration", timedelta_text(value)
    return SCHEMA, kind, text


_SPECIAL: Final = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
"""Texts of Python and of XML."""


def typed_value(kind: str, text: str) -> RuleValue:
    """Read a value in a rule; the text itself if its type is unknown.

    Raises:
        ValueError: The text does not fit the type.
    """
    read = _READERS.get(kind)
    return text if read is None else read(text.strip())


_READERS: Final[dict[str, Callable[[str], RuleValue]]] = {
    "boolean": lambda text: text in {"true", "1"},
    **dict.fromkeys(("int", "long", "short", "byte"), int),
    **dict.fromkeys(("unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong"), int),
    **dict.fromkeys(("double", "float", "decimal"), float),
    "dateTime": time_of,
    "duration": timedelta_of,
    "guid": UUID,
}
