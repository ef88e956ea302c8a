# SPDX-License-Identifier: Apache-2.0
"""The list of contract tests that do not run over AMQP names tests that are there, each once."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from amqp_transport import CONTRACT, LEFT_OUT, left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def functions_of(file: Path) -> Iterator[str]:
    """Go through the names of the tests in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_what_is_left_out_is_there() -> None:
    """A test that was renamed or deleted leaves the list with it, else the next of its name would not run."""
    there: set[str] = set()
    for file in CONTRACT.rglob("test_*.py"):
        place = file.relative_to(CONTRACT).with_suffix("")
        there |= {str(place), *map(str, place.parents), *(f"{place}::{name}" for name in functions_of(file))}
    assert [place for place in left_out() if place not in there - {"."}] == []


def test_each_place_has_one_reason() -> None:
    """No place is named twice, and none beside the file or the folder that it is in."""
    places = Counter(left_out())
    assert [place for place, count in places.items() if count > 1] == []
    within = [place.partition("::")[0] for place in places if "::" in place]
    assert [place for place in within if place in places or place.partition("/")[0] in places] == []


def test_reasons_hold_for_something() -> None:
    """A reason whose tests have all come back goes, too."""
    assert [reason for reason, places in LEFT_OUT.items() if not places] == []
