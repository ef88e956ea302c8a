# SPDX-License-Identifier: Apache-2.0
"""Backups taken while threads work, and while the process is killed, are each the state at one moment.

The worker of the kill test logs each call before it begins and after it returned. A backup is right if there is a
moment between its begin and its first copied byte for which the history up to then, the end of the process, and the
restored messages keep every promise: nothing acknowledged is lost, nothing settled returns, counts and order hold.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from bisect import bisect_left
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from kill_audit import LIVENESS_SECONDS, WORKER, audit, records
from kill_history import check
from kill_messages import QUEUES
from oxbus import Namespace
from oxbus.backups import backup, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kill_history import Record

ROUNDS = int(os.environ.get("OXBUS_KILL_CYCLES", "12")) // 12
# So many backups are taken before the kill. Checking them takes the square of the time until then.
SAVED_BACKUPS = 3
POLL_SECONDS = 0.02

pytestmark = pytest.mark.timeout(300 + 60 * ROUNDS)


def of(queue: str, history: Iterable[Record]) -> Iterator[Record]:
    """The records of a queue, without those of backups."""
    return (record for record in history if record["do"] != "backup" and record.get("queue", queue) == queue)


def found_in(directory: Path) -> list[Record]:
    """What a restored directory has."""
    with Namespace(directory) as namespace:
        assert {health.status for health in namespace.partition_health()} == {"healthy"}
        return audit(namespace)


def judge_backup(history: list[Record], moment: tuple[int, int], found: list[Record]) -> None:
    """Fail unless there is a moment in a range of the history at which the messages were those found."""
    positions = {queue: [at for at, record in enumerate(history) if [*of(queue, [record])]] for queue in QUEUES}

    @cache
    def broken_by(queue: str, count: int) -> list[str]:
        """The promises to a queue that its first records break."""
        return check([*islice(of(queue, history), count), {"do": "end"}, *of(queue, found)])

    def broken(queue: str, at: int) -> list[str]:
        return broken_by(queue, bisect_left(positions[queue], at))

    if not any(all(not broken(queue, at) for queue in QUEUES) for at in range(moment[0], moment[1] + 1)):
        shown = "\n".join(f"{at} {queue}: {broken(queue, at)[:3]}" for at in moment for queue in QUEUES)
        pytest.fail(f"no moment of {moment} fits; the first and the last break these promises:\n{shown}")


def moments(history: list[Record]) -> dict[str, tuple[int, int]]:
    """For each saved backup the range of the history in which its moment is."""
    found: dict[str, tuple[int, int]] = {}
    begin = begun = 0
    for at, record in enumerate(history):
        if record["do"] == "backup":
            match record["phase"]:
                case "begin":
                    begin = at
                case "begun":
                    begun = at
                case "saved":
                    found[record["name"]] = (begin, begun)
    return found


@pytest.mark.parametrize("level", ["fsync", "os"])
def test_each_backup_is_the_state_at_one_moment(tmp_path: Path, in_background: Callable[..., Any], level: str) -> None:
    """Threads send, receive, settle, defer and take checkpoints meanwhile; then the process is killed."""
    seed = str(random.SystemRandom().randrange(10**9))
    for number in range(max(ROUNDS, 1)):
        bus, backups, log = (tmp_path / f"{name}{number}" for name in ("bus", "backups", "log"))
        worker = [sys.executable, str(WORKER), str(bus), str(log), f"{seed} {number}", level, "", str(backups)]
        with subprocess.Popen(worker, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert in_background(process.stdout.readline).result(LIVENESS_SECONDS) == "working\n"
            until = time.monotonic() + LIVENESS_SECONDS
            while len(moments(records(log))) < SAVED_BACKUPS:
                assert time.monotonic() < until, f"seed {seed}: no {SAVED_BACKUPS} backups in {LIVENESS_SECONDS} s"
                time.sleep(POLL_SECONDS)
            process.kill()
        history = records(log)
        saved = moments(history)
        for name in random.Random(seed).sample(sorted(saved), SAVED_BACKUPS):
            restore(backups / name, tmp_path / f"copy{number}-{name}")
            judge_backup(history, saved[name], found_in(tmp_path / f"copy{number}-{name}"))
        # The killed process left its directory as it is, and perhaps a part of a backup.
        backup(bus, backups)
        restore(backups, tmp_path / f"last{number}")
        found = found_in(tmp_path / f"last{number}")
        assert found == found_in(bus), f"seed {seed}"
        for queue in QUEUES:
            assert not check([*of(queue, history), {"do": "end"}, *of(queue, found)]), f"seed {seed}"
