# SPDX-License-Identifier: Apache-2.0
"""Parsers of option values: durations, times, numbers, and typed properties."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS: Final = {"ms": 1_000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6, "w": 604800 * 10**6}
"""Microseconds."""
_PIECE: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_SECONDS: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def duration(text: str) -> timedelta:
    """Parse ``30s``, ``1h30m``, seconds as a bare number, ISO 8601 such as ``PT30S``, or ``never``."""
    from oxbus.management._durations import NEVER, to_milliseconds, to_timedelta  # noqa: PLC0415 -- rarely needed

    stripped = text.strip()
    if stripped.lower() == "never":
        return NEVER
    try:
        if stripped[:1] in {"P", "p"}:
            return to_timedelta(to_milliseconds("duration", stripped) or 0)
        if _SECONDS.fullmatch(stripped):
            return timedelta(microseconds=round(Decimal(stripped) * _UNITS["s"]))
        if stripped and not _PIECE.sub("", stripped):
            # Exact: a float of many days loses its microseconds.
            pieces = (Decimal(number) * _UNITS[unit] for number, unit in _PIECE.findall(stripped))
            return timedelta(microseconds=round(sum(pieces)))
    except (ValueError, OverflowError):
        pass
    raise ArgumentTypeError(f"must be a duration such as 30s, 5m, 1h30m, PT30S or never: `{text}`")


def seconds(text: str) -> float:
    """Parse a duration into seconds."""
    return duration(text).total_seconds()


def moment(text: str) -> datetime:
    """Parse an ISO 8601 time, UTC by default, or a duration from now."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) + duration(text)
        except (ArgumentTypeError, OverflowError):
            raise ArgumentTypeError(
                f"must be a time such as 2026-03-01T12:00 (UTC), or 5m from now: `{text}`"
            ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def count(text: str) -> int:
    """Parse an integer of at least 1."""
    return _number(text, least=1)


def amount(text: str) -> int:
    """Parse an integer of at least 0."""
    return _number(text, least=0)


def positive(text: str) -> float:
    """Parse a number above 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"must be a number above 0: `{text}`")
    return found


def _number(text: str, *, least: int) -> int:
    try:
        found = int(text)
    except ValueError:
        found = -1
    if not least <= found < 2**63:
        raise ArgumentTypeError(f"must be a whole number from {least}: `{text}`")
    return found


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": _truth,
    "datetime": _time,
    "duration": duration,
    "uuid": UUID,
}


def named_value(text: str) -> tuple[str, Any]:
    """Parse ``NAME=VALUE`` as text, or ``NAME:TYPE=VALUE``, such as ``amount:int=100``."""
    left, equals, value = text.partition("=")
    name, colon, kind = left.rpartition(":")
    if not colon or kind not in _TYPES:
        name, kind = left, "text"
    if not equals or not name:
        raise ArgumentTypeError(f"must be NAME=VALUE or NAME:TYPE=VALUE with TYPE of {', '.join(_TYPES)}: `{text}`")
    try:
        return name, _TYPES[kind](value)
    except ValueError:
        raise ArgumentTypeError(f"{name} must be {kind}: `{value}`") from None
