# SPDX-License-Identifier: Apache-2.0
"""A file system that is really full can be drained, also by the next process (R-26).

The test mounts a small file system in memory, in its own mount namespace. `OXBUS_DISK_MEBIBYTES` selects other sizes.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "kit" / "small_disk.py"
SIZES = [int(size) for size in os.environ.get("OXBUS_DISK_MEBIBYTES", "32").split(",")]
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]

pytestmark = pytest.mark.timeout(600)


@functools.cache
def can_mount() -> bool:
    """Whether this user may mount in a user namespace: some machines forbid it."""
    probe = [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run(directory: Path, *arguments: object) -> dict[str, Any]:
    """Fill and drain a file system mounted on a directory; return the result."""
    if not can_mount():
        pytest.skip("this user may not mount a file system, not even in a user namespace")
    command = [*UNSHARE, sys.executable, str(SCRIPT), str(directory), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    return found


@pytest.mark.parametrize("mebibytes", SIZES)
@pytest.mark.parametrize("body_bytes", [4096, 100_000])
@pytest.mark.parametrize("partitions", [4, 16])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_everything_on_a_full_disk_can_be_drained(
    tmp_path: Path, mebibytes: int, body_bytes: int, partitions: int, end: str
) -> None:
    """All messages are received, then completed, abandoned, deferred or dead-lettered; then sends work (R-26, R-01)."""
    for settlement in ("complete", "mixed"):
        found = run(tmp_path, mebibytes, body_bytes, partitions, end, settlement)
        assert found["before"] == found["stored"] == found["completed"], (settlement, found)
        assert (found["left"], found["sends again"]) == (0, True), (settlement, found)


@pytest.mark.parametrize("mebibytes", SIZES)
@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.parametrize("settlement", ["dead-letter", "defer"])
def test_every_message_can_move_on_a_full_disk(tmp_path: Path, mebibytes: int, end: str, settlement: str) -> None:
    """Each message is dead-lettered, or deferred and fetched; none is removed before the last has moved (R-26)."""
    for body_bytes in (4096, 100_000):
        found = run(tmp_path, mebibytes, body_bytes, 4, end, settlement)
        assert found["before"] == found["stored"] == found["completed"], found
        assert (found["left"], found["sends again"]) == (0, True), found


@pytest.mark.parametrize("mebibytes", SIZES)
@pytest.mark.parametrize("end", ["close", "kill"])
def test_one_partition_of_small_messages_is_drained_one_by_one(tmp_path: Path, mebibytes: int, end: str) -> None:
    """The journal folds the entries of many small messages, so they need no more than the drain reserve (R-26)."""
    found = run(tmp_path, mebibytes, 100, 1, end, "single")
    assert found["stored"] > mebibytes * 2000
    assert found["before"] == found["stored"] == found["completed"], found
    assert (found["left"], found["sends again"]) == (0, True), found


@pytest.mark.parametrize("mebibytes", SIZES)
def test_backups_do_not_keep_a_full_disk_from_being_drained(tmp_path: Path, mebibytes: int) -> None:
    """They hold no file that the drain needs, and each begins, whatever is folded meanwhile (R-26)."""
    found = run(tmp_path, mebibytes, 100, 1, "backups", "single")
    assert found["before"] == found["stored"] == found["completed"], found
    assert (found["left"], found["sends again"]) == (0, True), found
    assert found["backups"] > 0, found
    assert "failed" not in found, found
