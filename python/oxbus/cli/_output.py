# SPDX-License-Identifier: Apache-2.0
"""Output of commands: JSON for programs, short texts for people. Tables are in `_table`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

_NEVER: Final = "P10675199DT2H48M5.4775807S"
_NEVER_DAYS: Final = 10675199
_LONG: Final = ((86400, "d"), (3600, "h"), (60, "m"))


def print_json(value: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(plain(value)), flush=True)


def plain(value: Any) -> Any:  # noqa: PLR0911 (one for each kind)
    """Convert a value for JSON: durations and times become ISO 8601 strings, bytes base64."""
    match value:
        case Enum():
            return value.value
        case timedelta():
            return _iso_duration(value)
        case datetime():
            return value.isoformat()
        case UUID() | PurePath():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def print_pairs(values: Mapping[str, object]) -> None:
    """Print names with their values, one per line."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        print(f"{name:<{width}}  {words(value)}".rstrip())


def words(value: object) -> str:  # noqa: PLR0911 (one for each kind)
    """Return a value as short text; control characters are escaped."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Enum():
            return str(value.value)
        case timedelta():
            return _short_duration(value)
        case datetime():
            return value.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
        case int():
            return f"{value:,}"
        case list() | tuple() | dict():
            return printable(json.dumps(plain(value))) if value else "-"
    return printable(str(value))


def shown_time(moment: datetime | None) -> str:
    """Return a time, truncated to seconds."""
    return "-" if moment is None else words(moment.replace(microsecond=0)).replace(".000Z", "Z")


def printable(text: str) -> str:
    """Escape unprintable characters: control characters, line ends, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _iso_duration(value: timedelta) -> str:
    if value.days >= _NEVER_DAYS:
        return _NEVER
    seconds = f"{value.seconds}.{value.microseconds:06}".rstrip("0").rstrip(".")
    days = f"{value.days}D" if value.days else ""
    time = f"T{seconds}S" if seconds != "0" or not days else ""
    return f"P{days}{time}"


def _short_duration(value: timedelta) -> str:
    if value.days >= _NEVER_DAYS:
        return "never"
    left = value.days * 86400 + value.seconds
    pieces = []
    for size, unit in _LONG:
        if left >= size:
            pieces.append(f"{left // size}{unit}")
            left %= size
    seconds = f"{left}.{value.microseconds:06}".rstrip("0").rstrip(".")
    if seconds != "0" or not pieces:
        pieces.append(f"{seconds}s")
    return "".join(pieces)
