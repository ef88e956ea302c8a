# SPDX-License-Identifier: Apache-2.0
"""The list of contract tests that do not run over our client names only tests that exist, each once."""

from __future__ import annotations

import re
from collections import Counter

from amqp_transport import CONTRACT
from client_transport import LEFT_OUT, left_out


def test_excluded_tests_would_run() -> None:
    """A test that is renamed or deleted leaves the list, else a new namesake would not run."""
    for place in left_out():
        file, _, test = place.partition("::")
        if not test and (CONTRACT / file).is_dir():
            continue
        functions = set(
            re.findall(r"^ *(?:async )?def (test_\w+)", (CONTRACT / f"{file}.py").read_text(), re.MULTILINE)
        )
        assert not test or test in functions, place


def test_each_excluded_test_has_one_reason() -> None:
    """No entry occurs twice, and none is inside a file that is listed."""
    places = Counter(left_out())
    assert [place for place, count in places.items() if count > 1] == []
    assert [place for place in places if "::" in place and place.partition("::")[0] in places] == []
    assert all(LEFT_OUT.values())
