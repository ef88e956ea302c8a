# SPDX-License-Identifier: Apache-2.0
"""docs/compat.md has a row for each rule of docs/behaviour.md, and the test a row links cites the rule.

The tables have the columns ``rule``, ``status``, ``here`` and ``test``.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs/compat.md"
RULES = PAGE.with_name("behaviour.md")


class Row(NamedTuple):
    """One line of a table."""

    rules: list[str]
    status: str
    here: str
    tests: list[Path]


def rows() -> list[Row]:
    """The lines of all rule tables."""
    found = []
    inside = False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells == ["rule", "status", "here", "test"]:
            inside = True
        elif inside and not set(line) <= set("|- :"):
            rules, status, here, test = cells
            paths = [PAGE.parent / path for path in re.findall(r"\]\((\.\./(?:tests|rust)/[\w/-]+\.(?:py|rs))\)", test)]
            found.append(Row(re.findall(r"B-\d{3}", rules), status, here, paths))
    return found


def test_each_rule_of_a_group_has_one_row() -> None:
    """The heading of a group names its first and last rule, and none between is missing."""
    headings = re.findall(r"^### .*\(B-(\d+) … B-(\d+)\)$", PAGE.read_text(), flags=re.MULTILINE)
    expected = {f"B-{number:03}" for first, last in headings for number in range(int(first), int(last) + 1)}
    listed = Counter(rule for row in rows() for rule in row.rules)
    written = set(re.findall(r"^- \*\*(B-\d{3})\*\*", RULES.read_text(), flags=re.MULTILINE))
    assert len(written) >= 467
    assert sorted(written - expected) == []
    assert [rule for rule, count in listed.items() if count > 1] == []
    assert sorted(expected ^ listed.keys()) == []


def test_each_rule_that_holds_is_cited_by_its_test() -> None:
    """Rows other than absent ones link tests that name the rule; advice has no test."""
    unproved = [
        (rule, row.here)
        for row in rows()
        for rule in row.rules
        if row.status != "absent"
        and not row.here.startswith("Advice")
        and not any(rule in path.read_text() for path in row.tests)
    ]
    assert unproved == []


def test_each_difference_names_what_differs() -> None:
    """A row that is not "same" has a text, and each status is one that the page defines."""
    assert {row.status for row in rows()} <= {"same", "differs", "absent"}
    assert [row.rules for row in rows() if row.status != "same" and len(row.here.split()) < 3] == []
