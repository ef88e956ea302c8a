# SPDX-License-Identifier: Apache-2.0
"""The lists of contract tests over HTTP name only tests that exist, each once."""

from __future__ import annotations

import re
from collections import Counter

from amqp_transport import CONTRACT
from http_transport import FILES, LEFT_OUT, left_out


def functions_of(file: str) -> set[str]:
    """The names of the test functions in a file."""
    return set(re.findall(r"^ *def (test_\w+)", (CONTRACT / f"{file}.py").read_text(), re.MULTILINE))


def test_files_are_about_administration() -> None:
    """Each of them uses the administration client."""
    for file in FILES:
        assert re.search(r"\badmin\b", (CONTRACT / f"{file}.py").read_text()), file


def test_excluded_tests_would_run() -> None:
    """A test that is renamed or deleted leaves the list, else a new namesake would not run."""
    for place in left_out():
        file, _, test = place.partition("::")
        assert file in FILES, place
        assert not test or test in functions_of(file), place


def test_each_excluded_test_has_one_reason() -> None:
    """No entry occurs twice, and none is inside a file that is listed."""
    places = Counter(left_out())
    assert [place for place, count in places.items() if count > 1] == []
    assert [place for place in places if "::" in place and place.partition("::")[0] in places] == []
    assert all(LEFT_OUT.values())
