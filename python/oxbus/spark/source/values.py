# SPDX-License-Identifier: Apache-2.0
"""Parsers of option texts: Spark passes every option as text.

A parser raises ValueError with the accepted form; the caller adds the name of the option.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BYTES_PER_UNIT = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def text(value: str) -> str:
    """Accept any text that is not blank."""
    if not value.strip():
        raise ValueError("a text that is not blank")
    return value


def boolean(value: str) -> bool:
    """Parse `true` or `false`."""
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise ValueError("true or false")
    return known[value.strip().lower()]


def choice(*values: str) -> Callable[[str], str]:
    """Return a parser for one of these values, case-insensitive."""
    by_lower_case = {value.lower(): value for value in values}

    def read(value: str) -> str:
        if value.strip().lower() not in by_lower_case:
            raise ValueError(" or ".join(values))
        return by_lower_case[value.strip().lower()]

    return read


def integer(least: int, most: int = 1_000_000_000) -> Callable[[str], int]:
    """Return a parser for an integer in this range."""

    def read(value: str) -> int:
        if not re.fullmatch(r"\d{1,18}", value.strip()) or not least <= int(value) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(value)

    return read


def size(value: str) -> int:
    """Parse a size in bytes: `2m`, `512k`, `1048576`."""
    match = re.fullmatch(r"(\d{1,15})\s*([bkmg]?)b?", value.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("a size above 0, such as 2m, 512k or 1048576")
    return int(match[1]) * _BYTES_PER_UNIT[match[2]]


def seconds(value: str) -> float:
    """Parse a duration in seconds: `60s`, `500ms`, `2m`; a plain number is seconds."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*(ms|s|m|h)?", value.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ValueError("a duration above 0, such as 60s, 500ms or 2m")
    return float(match[1]) * _SECONDS_PER_UNIT[match[2] or "s"]


def moment(value: str) -> datetime:
    """Parse a time: ISO 8601, UTC by default, or microseconds since 1970."""
    try:
        if re.fullmatch(r"\d{1,17}", value.strip()):
            return datetime.fromtimestamp(int(value) / 1_000_000, UTC)
        read = datetime.fromisoformat(value.strip())
    except (ValueError, OverflowError, OSError):
        raise ValueError("ISO 8601 such as 2026-03-01T12:00:00Z, or microseconds since 1970") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def partitions(value: str) -> frozenset[int]:
    """Parse partition numbers: `0,3,7`."""
    if not re.fullmatch(r"\s*\d{1,5}\s*(,\s*\d{1,5}\s*)*", value):
        raise ValueError("numbers of partitions such as 0,3,7")
    return frozenset(int(number) for number in value.split(","))


def offsets(ends: str) -> Callable[[str], str | Mapping[int, int]]:
    """Return a parser for `earliest`, `latest`, or JSON from partition to the first or the end number.

    Args:
        ends: The accepted words, for errors.
    """

    def read(value: str) -> str | Mapping[int, int]:
        known = value.strip().lower()
        if known in {"earliest", "latest"}:
            return known
        try:
            parsed: Any = json.loads(value)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict) or not all(
            re.fullmatch(r"\d{1,5}", key) and type(number) is int and number >= 0 for key, number in parsed.items()
        ):
            raise ValueError(f'{ends}, or JSON from partition to sequence number such as {{"0": 17, "3": 5}}')
        return {int(key): number for key, number in parsed.items()}

    return read
