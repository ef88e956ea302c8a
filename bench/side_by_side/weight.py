# SPDX-License-Identifier: Apache-2.0
"""Resident bytes per waiting message of each queue in memory, in a fresh process; a server's own bytes for a server.

python bench/side_by_side/weight.py PeekLock 1000000
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from durable.measure import SCRATCH
from memory import body_of, resident_bytes
from peers.line_up import EVERYONE, load, weakest

if TYPE_CHECKING:
    from peers.contract import BenchQueue

BATCH = 1000
WARM = 10_000


def bytes_per_message(queue_type: type[BenchQueue], messages: int) -> float:
    """Bytes beyond nothing, the body included."""
    command = [sys.executable, __file__, queue_type.__name__, str(messages)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(answer.stdout.splitlines()[-1]))


def _measure(name: str, messages: int) -> float:
    queue_type = next(load(module, found) for module, found in EVERYONE if found == name)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        queue = queue_type(Path(folder), weakest(queue_type))
        try:
            queue.attach()
            pid = queue.server_pid()

            def resident() -> int:
                return resident_bytes() if pid is None else _resident_of(pid)

            def fill(count: int) -> None:
                for start in range(0, count, BATCH):
                    queue.send_many([body_of(number) for number in range(start, start + BATCH)])

            fill(WARM)
            before = resident()
            fill(messages)
            return (resident() - before) / messages
        finally:
            queue.close()


def _resident_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
