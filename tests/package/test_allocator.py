# SPDX-License-Identifier: Apache-2.0
"""The process keeps freed memory for a while, unless the user sets another time (decision 0020)."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from oxbus._allocator import KEEP_MS, OPTION


@pytest.mark.parametrize("given", [None, "25"])
def test_freed_memory_stays_for_the_default_or_the_given_time(given: str | None) -> None:
    """The allocator has the option when it is loaded, and child programs do not inherit it."""
    environment = {name: value for name, value in os.environ.items() if name != OPTION} | {"MIMALLOC_VERBOSE": "1"}
    if given is not None:
        environment[OPTION] = given
    program = f"import oxbus, os; print('left:', os.environ.get({OPTION!r}))"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    printed = re.search(r"'purge_delay': (\d+)", done.stderr)
    assert printed, done.stderr
    assert printed[1] == given if given is not None else int(printed[1]) == KEEP_MS
    assert f"left: {given}" in done.stdout
