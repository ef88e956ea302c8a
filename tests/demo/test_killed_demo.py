# SPDX-License-Identifier: Apache-2.0
"""The same command continues a killed demo, and every flight still counts once.

`OXBUS_KILL_SEED` repeats the choices of a run (not its timing).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("killed_demo.py")
FLIGHTS = 1200
LIVENESS_SECONDS = 300
KILLS = 4
LONGEST_LIFE_SECONDS = 4.0
SEED = os.environ.get("OXBUS_KILL_SEED") or str(random.SystemRandom().randrange(10**9))

IN_ONE_DIRECTORY = (
    "encode",
    "send:0",
    "half a send:1",
    "sent:0",
    "received:1",
    "settle:1",
    "half a settle:1",
    "settled:1",
    "tell",
)
"""The points at which successive runs are killed; each continues the work of the one before."""

pytestmark = pytest.mark.timeout(1800)


def start(directory: Path, point: str = "") -> subprocess.Popen[str]:
    """Start the demo; it kills itself at the point."""
    command = [sys.executable, str(SCRIPT), str(directory), point]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_its_end(directory: Path) -> dict[str, Any]:
    """Run the demo without a kill and return its report."""
    with start(directory) as process:
        output, errors = process.communicate(timeout=LIVENESS_SECONDS)
    assert process.returncode == 0, errors
    report: dict[str, Any] = json.loads(output)
    return report


def failed_claims(report: dict[str, Any]) -> list[str]:
    """The failed claims with their findings."""
    return [f"{check['claim']}: {check['finding']}" for check in report["checks"] if not check["passed"]]


def check_report(report: dict[str, Any], context: str = "") -> None:
    """Every claim holds and each flight is counted once."""
    assert report["passed"], f"{context} {failed_claims(report)}"
    assert sum(report["messages_per_partition"]) == FLIGHTS
    assert sum(report["messages_per_receiver"]) == FLIGHTS


def test_demo_survives_a_kill_at_every_step(tmp_path: Path) -> None:
    """One kill between each action and its note; then the counts are right and no files remain."""
    directory = tmp_path / "demo"
    for point in IN_ONE_DIRECTORY:
        with start(directory, point) as process:
            _output, errors = process.communicate(timeout=LIVENESS_SECONDS)
        assert process.returncode == -signal.SIGKILL, f"{point} was not reached: {errors}"
    report = run_to_its_end(directory)
    check_report(report)
    assert report["resumed"]
    # The run that was killed during encoding left no progress.
    assert report["runs"]["count"] == len(IN_ONE_DIRECTORY)
    # Killed before a completion, and after half of one: noted, and delivered again.
    assert report["runs"]["noted_again"] > 0
    # Killed before the note: delivered again, too.
    assert report["runs"]["redelivered"] > report["runs"]["noted_again"]
    assert not directory.exists()


def test_kill_while_sending_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    """The rest of a half-sent batch is sent, its first half is not sent again, and acknowledged batches are kept."""
    directory = tmp_path / "demo"
    with start(directory, "half a send:2") as process:
        process.communicate(timeout=LIVENESS_SECONDS)
    report = run_to_its_end(directory)
    check_report(report)
    assert 0 < report["runs"]["found_in_queue"] < FLIGHTS // 4
    assert report["rows"]["send"] == FLIGHTS - 2 * (FLIGHTS // 4) - report["runs"]["found_in_queue"]
    assert any("acknowledged before the kill" in check["claim"] for check in report["checks"])


def test_demo_survives_kills_at_any_moment(tmp_path: Path) -> None:
    """Killed from outside at random moments."""
    directory = tmp_path / "demo"
    chance = random.Random(SEED)
    for _kill in range(KILLS):
        with start(directory) as process:
            time.sleep(chance.uniform(0, LONGEST_LIFE_SECONDS))
            process.kill()
            process.communicate(timeout=LIVENESS_SECONDS)
    check_report(run_to_its_end(directory), f"seed {SEED}")


def test_run_after_a_finished_one_starts_from_scratch(tmp_path: Path) -> None:
    """A finished demo leaves no files that the next one could use."""
    for _run in range(2):
        report = run_to_its_end(tmp_path / "demo")
        check_report(report)
        assert not report["resumed"]
        assert report["rows"]["send"] == FLIGHTS
