# SPDX-License-Identifier: Apache-2.0
"""Durations of entity options: `timedelta` or ISO 8601 text for callers, whole milliseconds for the broker.

Source: docs/behaviour.md B-022, B-460.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

NEVER: Final = timedelta(days=10675199, seconds=10085, microseconds=477581)
"""The longest duration of Service Bus, ``P10675199DT2H48M5.4775807S``: no limit."""

NEVER_MS: Final = 2**63 - 1
"""The broker's value for an unlimited duration."""

_NUMBER = r"(\d+(?:[.,]\d+)?)"
_ISO_8601 = re.compile(
    rf"P(?=[\dT])(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.IGNORECASE | re.ASCII,
)


def to_milliseconds(name: str, duration: timedelta | str | None) -> int | None:
    """Convert the option `name` to whole milliseconds, rounded down; None stays None.

    Raises:
        TypeError: `duration` is neither a `timedelta` nor a str.
        ValueError: The text is not an ISO 8601 duration of weeks, days, hours, minutes and seconds.
    """
    if duration is None:
        return None
    if isinstance(duration, str):
        duration = _parse(name, duration)
    if not isinstance(duration, timedelta):
        raise TypeError(
            f"{name} must be a timedelta or an ISO 8601 duration such as 'PT1M', not {type(duration).__name__}: "
            "write timedelta(seconds=...)"
        )
    return NEVER_MS if duration >= NEVER else duration // timedelta(milliseconds=1)


def to_timedelta(milliseconds: int) -> timedelta:
    """Convert the broker's milliseconds to a `timedelta`; an unlimited duration becomes `NEVER`."""
    if milliseconds >= NEVER // timedelta(milliseconds=1):
        return NEVER
    return timedelta(milliseconds=milliseconds)


def _parse(name: str, text: str) -> timedelta:
    match = _ISO_8601.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{name} must be an ISO 8601 duration of days, hours, minutes and seconds such as 'P1DT2H30M': "
            f"{name}=`{text}`"
        )
    weeks, days, hours, minutes, seconds = (float((group or "0").replace(",", ".")) for group in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return timedelta.max
