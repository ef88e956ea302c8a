# SPDX-License-Identifier: Apache-2.0
"""XML, durations, times and typed values: what is written is read again, and whatever is read ends in a known error."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import isodate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oxbus.management._atom._rules import read_rule, write_rule
from oxbus.management._atom._values import (
    NEVER_TEXT,
    duration_of,
    duration_text,
    milliseconds_of,
    time_of,
    timedelta_of,
    timedelta_text,
    typed_text,
)
from oxbus.management._atom._xml import MalformedXmlError, XmlWriter, parse
from oxbus.management._durations import NEVER_MS

if TYPE_CHECKING:
    from oxbus.management._rules import RuleValue

INVALID = "".join(map(chr, [*range(32), 0xFFFE, 0xFFFF]))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=INVALID) | st.sampled_from("\t\n\r"))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXT,
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001 (bounds)
    st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
    st.uuids(),
)


@given(st.binary())
def test_any_bytes_are_read_or_refused(document: bytes) -> None:
    """The only error is that of a malformed document."""
    with contextlib.suppress(MalformedXmlError):
        parse(document)


@given(TEXT)
def test_text_is_kept(text: str) -> None:
    """Special characters, line ends and blanks included."""
    out = XmlWriter()
    out.text("a", text)
    assert parse(out.finish()).text == text


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ufffe", "\ud800"])
def test_character_that_xml_lacks(character: str) -> None:
    """It is refused with its number instead of being replaced."""
    with pytest.raises(ValueError, match=f"a has a character .*U\\+{ord(character):04X}"):
        XmlWriter().text("a", f"x{character}")


@given(st.dictionaries(TEXT, VALUES, max_size=5), st.dictionaries(TEXT, VALUES, max_size=5))
def test_rule_is_kept(filtered: dict[str, RuleValue], set_: dict[str, RuleValue]) -> None:
    """Values keep their types."""
    rule = {
        "name": "first",
        "filter": {"kind": "sql", "expression": "a < 1 AND b = '&'", "parameters": filtered},
        "action": {"expression": "SET a = 1", "parameters": set_},
    }
    out = XmlWriter()
    out.open("RuleDescription", 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"')
    write_rule(rule, out)
    out.close("RuleDescription")
    assert read_rule("other", parse(out.finish())) == rule | {"created_at_ms": None}


@given(st.timedeltas(timedelta(0), timedelta(days=100_000)))
def test_durations_are_those_of_iso_8601(duration: timedelta) -> None:
    """As another library writes and reads them."""
    assert timedelta_of(isodate.duration_isoformat(duration)) == duration
    assert isodate.parse_duration(timedelta_text(duration)) == duration
    assert timedelta_of(timedelta_text(-duration)) == -duration


def test_longest_duration() -> None:
    """It is never, exactly as the service writes it."""
    assert duration_text(NEVER_MS) == NEVER_TEXT
    assert duration_of(NEVER_TEXT) == duration_of("P99999999999D") == NEVER_MS
    assert duration_of("PT1M30.5S") == 90_500


def test_times() -> None:
    """Seven digits of a fraction, as .NET writes them; a time without a zone is in UTC; the year 1 is never."""
    assert time_of("2014-07-02T01:32:27.1234567Z") == datetime(2014, 7, 2, 1, 32, 27, 123456, UTC)
    assert time_of("2014-07-02T03:32:27+02:00") == time_of("2014-07-02T01:32:27")
    assert milliseconds_of("1970-01-01T00:00:01Z") == 1000
    assert milliseconds_of("0001-01-01T00:00:00Z") is None
    assert milliseconds_of(None) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1, "int"), (2**31, "long"), (True, "boolean"), (1.0, "double"), (UUID(int=1), "guid"), ("x", "string")],
)
def test_types(value: RuleValue, kind: str) -> None:
    """The names of the types of XML Schema."""
    assert typed_text(value)[1] == kind


def test_integer_of_more_than_64_bits() -> None:
    """It is refused before anything is sent."""
    with pytest.raises(ValueError, match="64 bits"):
        typed_text(2**63)
