# SPDX-License-Identifier: Apache-2.0
"""The list of contract tests that do not run over AMQP names tests that would, each once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from amqp_transport import CONTRACT, LEFT_OUT, LEFT_OUT_OPTION, left_out


def test_what_is_left_out_would_run() -> None:
    """What is renamed, deleted or needs no transport leaves the list, else the next test of its name would not run."""
    collect = [sys.executable, "-m", "pytest", LEFT_OUT_OPTION, "--collect-only", "-q", str(CONTRACT)]
    listed = subprocess.run(collect, cwd=CONTRACT.parents[1], capture_output=True, text=True, check=True).stdout
    there: set[str] = set()
    for line in listed.splitlines():
        file, _, test = line.removeprefix("tests/contract/").partition(".py::")
        there |= {file, file.partition("/")[0], f"{file}::{test.partition('[')[0].rpartition('::')[2]}"}
    assert [place for place in left_out() if place not in there] == []


def test_each_place_has_one_reason() -> None:
    """No place is named twice, and none beside the file or the folder that it is in."""
    places = Counter(left_out())
    assert [place for place, count in places.items() if count > 1] == []
    within = [place.partition("::")[0] for place in places if "::" in place]
    assert [place for place in within if place in places or place.partition("/")[0] in places] == []


def test_reasons_hold_for_something() -> None:
    """A reason whose tests have all come back goes, too."""
    assert [reason for reason, places in LEFT_OUT.items() if not places] == []
