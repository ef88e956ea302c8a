# SPDX-License-Identifier: Apache-2.0
"""docs/logging.md lists the events of the sources, and the sources emit those of the list."""

from __future__ import annotations

import re

from event_table import ROOT, events

DOCUMENTED = re.compile(r"^\| `([a-z_.]+)` \| (error|warning|info|debug) \|([^|]+)\|([^|]+)\|([^|]*)\|$", re.MULTILINE)


def page() -> str:
    """The text of the page."""
    return (ROOT / "docs/logging.md").read_text()


def test_page_lists_each_event_with_its_level() -> None:
    """Exactly those, each once."""
    documented = [(name, level) for name, level, *_ in DOCUMENTED.findall(page())]
    assert sorted(documented) == sorted((event.name, event.level) for event in events())


def test_each_event_is_under_the_heading_of_its_logger() -> None:
    """The logger is in the heading above the table."""
    found: list[tuple[str, str]] = []
    for section in re.split(r"^## ", page(), flags=re.MULTILINE)[1:]:
        loggers = re.findall(r"`(oxbus\.[a-z]+)`", section.splitlines()[0])
        found += [(name, logger) for logger in loggers for name, *_ in DOCUMENTED.findall(section)]
    assert sorted(found) == sorted((event.name, event.logger) for event in events())


def arguments(source: str, start: int) -> list[str]:
    """The arguments of a macro that begins there; nested brackets are skipped."""
    found, depth = [""], 0
    for char in source[start:]:
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if depth < 0:
            break
        if char == "," and depth == 0:
            found.append("")
        elif depth == 0:
            found[-1] += char
    return [argument.strip() for argument in found if argument.strip()]


def emitted() -> dict[str, set[str]]:
    """The fields of each event, by its name in the sources."""
    fields: dict[str, set[str]] = {}
    for path in (ROOT / "rust").rglob("*.rs"):
        source = path.read_text()
        if "oxbus-log" in path.parts:
            continue
        for call in re.finditer(r"\bevent!\(", source):
            constant, *rest = arguments(source, call.end())
            fields.setdefault(constant, set()).update(field.split("=")[0].strip() for field in rest)
    return fields


def test_sources_emit_every_event() -> None:
    """An event that is never emitted is dead. The log itself emits the event about lost lines."""
    assert emitted().keys() | {"LINES_LOST"} == {event.constant for event in events()}


def test_page_lists_the_fields_of_each_event() -> None:
    """The page lists the fields of the sources, in code font."""
    names = {event.name: event.constant for event in events()}
    fields = emitted() | {"LINES_LOST": {"count"}}
    documented = {name: set(re.findall(r"`([a-z_]+)`", listed)) for name, _, listed, *_ in DOCUMENTED.findall(page())}
    assert documented == {name: fields[constant] for name, constant in names.items()}
