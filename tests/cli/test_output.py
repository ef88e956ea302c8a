# SPDX-License-Identifier: Apache-2.0
"""The format of values: as text and as JSON."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oxbus.cli._output import plain, printable, words
from oxbus.cli._values import duration, moment, positive
from oxbus.management._durations import NEVER

DURATIONS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100_000)).map(
    lambda span: span - span % timedelta(milliseconds=1)
)


@given(DURATIONS)
def test_durations_are_read_back(span: timedelta) -> None:
    """The output is valid input, in both forms, to the millisecond."""
    assert duration(words(span)) == span
    assert duration(plain(span)) == span


def test_never_is_read_back() -> None:
    """The unlimited duration, too."""
    assert words(NEVER) == "never"
    assert duration(words(NEVER)) == NEVER
    assert duration(plain(NEVER)) == NEVER


@pytest.mark.parametrize("text", ["", "s", "5", "5 m", "5m3", "-5s", "5M", "1.5.5s", "PT", "five", "\u0665s", "1e5"])
def test_invalid_durations(text: str) -> None:
    """Units are small letters without spaces; a bare number is seconds."""
    if text == "5":
        assert duration(text) == timedelta(seconds=5)
        return
    with pytest.raises(ArgumentTypeError, match="such as 30s"):
        duration(text)


def test_times_are_utc_by_default() -> None:
    """An offset is respected, and a duration counts from now."""
    assert moment("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    assert moment("2026-03-01T12:00+02:00") == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert moment("1h") > datetime.now(UTC)
    for text in ("soon", "9999999d", "never"):
        with pytest.raises(ArgumentTypeError):
            moment(text)


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "x", ""])
def test_rate_is_positive(text: str) -> None:
    """A rate is a positive and finite number."""
    with pytest.raises(ArgumentTypeError):
        positive(text)
    assert math.isclose(positive("0.5"), 0.5)


@given(st.text())
def test_shown_text_is_one_line_without_control_characters(text: str) -> None:
    """This holds for any characters in a name."""
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) >= len(text)
    assert shown == text or not text.isprintable()
