# SPDX-License-Identifier: Apache-2.0
"""The stub of the native module matches the module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWLIST = Path(__file__).with_name("stubtest_allowlist.txt")


@pytest.mark.timeout(300)
def test_stub_matches_the_native_module() -> None:
    """Names, signatures and defaults agree, apart from what the allowlist explains."""
    command = [sys.executable, "-m", "mypy.stubtest", "oxbus._oxbus"]
    command += ["--allowlist", str(ALLOWLIST), "--mypy-config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_line_of_the_allowlist_has_a_reason() -> None:
    """An exception without a reason would hide an error."""
    for line in ALLOWLIST.read_text().splitlines():
        entry, _, reason = line.partition("#")
        assert not entry.strip() or len(reason.split()) >= 3, line
