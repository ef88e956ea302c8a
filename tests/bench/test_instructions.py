# SPDX-License-Identifier: Apache-2.0
"""What `make instructions` counts, and what it makes of the counts; nothing is counted here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import counted
import instructions
import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = {"compiler": "rustc 1", "instructions": {"rust": 1000}}


@pytest.mark.parametrize("case", counted.CASES)
def test_counted_case_marks_where_it_begins_and_ends(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the counts of the cases after it would be those of others."""
    marks: list[None] = []
    monkeypatch.setattr(counted, "mark", lambda: marks.append(None))
    counted.CASES[case]()
    assert len(marks) == 2
    assert instructions.COUNTED_ROUNDS == counted.ROUNDS


def test_count_is_that_of_the_part_before_a_mark(tmp_path: Path) -> None:
    """The last part ends with the program and belongs to no case."""
    file = tmp_path / "part.1"
    file.write_text("version: 1\ndesc: Trigger: --dump-before=getppid\nevents: Ir\nfn=(1)\n0 7\ntotals: 42\n", "utf-8")
    assert instructions._part(file) == 42
    file.write_text("desc: Trigger: Program termination\ntotals: 42\n", "utf-8")
    with pytest.raises(RuntimeError, match="part"):
        instructions._part(file)


@pytest.mark.parametrize(
    ("before", "interpreter", "code"),
    [
        ({"python": 100}, sys.version, 0),
        ({"python": 96}, sys.version, 0),
        ({"python": 90}, sys.version, 1),
        ({}, sys.version, 1),
        ({"python": 90}, "another", 0),
    ],
)
def test_longer_and_new_paths_fail(before: dict[str, int], interpreter: str, code: int) -> None:
    """Beyond the band, and only beside a baseline of the same interpreter."""
    now = {"interpreter": sys.version, "instructions": {"python": 100}}
    baseline = {**PROGRAM, "python": {"dev": {"interpreter": interpreter, "instructions": before}}}
    assert instructions._compare(baseline, "dev", PROGRAM, now) == code


def test_each_profile_has_a_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    """A release build is not compared with a dev build."""
    now = {"interpreter": sys.version, "instructions": {"python": 100}}
    baseline = {**PROGRAM, "python": {"dev": {"interpreter": sys.version, "instructions": {"python": 1}}}}
    assert instructions._compare(baseline, "release", PROGRAM, now) == 0
    assert "no baseline of the release profile" in capsys.readouterr().out
