# SPDX-License-Identifier: Apache-2.0
"""The list of contract tests that do not run over AMQP names only tests that would otherwise run, each once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from amqp_transport import CONTRACT, LEFT_OUT, LEFT_OUT_OPTION, left_out


def test_excluded_tests_would_run() -> None:
    """A test that is renamed, deleted or without a transport leaves the list, else a new namesake would not run."""
    collect = [sys.executable, "-m", "pytest", LEFT_OUT_OPTION, "--collect-only", "-q", str(CONTRACT)]
    listed = subprocess.run(collect, cwd=CONTRACT.parents[1], capture_output=True, text=True, check=True).stdout
    existing: set[str] = set()
    for line in listed.splitlines():
        file, _, test = line.removeprefix("tests/contract/").partition(".py::")
        existing |= {file, file.partition("/")[0], f"{file}::{test.partition('[')[0].rpartition('::')[2]}"}
    assert [path for path in left_out() if path not in existing] == []


def test_each_excluded_path_has_one_reason() -> None:
    """No entry occurs twice, and none is inside a file or folder that is listed."""
    paths = Counter(left_out())
    assert [path for path, count in paths.items() if count > 1] == []
    within = [path.partition("::")[0] for path in paths if "::" in path]
    assert [path for path in within if path in paths or path.partition("/")[0] in paths] == []


def test_reasons_apply_to_some_test() -> None:
    """A reason whose tests all run again is removed, too."""
    assert [reason for reason, paths in LEFT_OUT.items() if not paths] == []
