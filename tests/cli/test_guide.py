# SPDX-License-Identifier: Apache-2.0
"""The commands in docs/guide/command-line.md run, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/guide/command-line.md"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_commands_of_the_guide_run(tmp_path: Path) -> None:
    """The commands run in one directory, as a reader types them; none fails or writes to standard error."""
    program = tmp_path / "bin" / "oxbus"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m oxbus.cli "$@"\n')
    program.chmod(0o755)
    script = "".join(FENCE.findall(GUIDE.read_text()))
    assert script.count("\noxbus ") > 15
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu"], input=script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "wrong address" in done.stdout
