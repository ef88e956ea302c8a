# SPDX-License-Identifier: Apache-2.0
"""Resident bytes per waiting message of each queue in memory, in a fresh process; a server's own bytes for a server.

python bench/side_by_side/weight.py PeekLock
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from durable.measure import SCRATCH
from memory import body_of, resident_bytes
from peers.contract import Level

from side_by_side.line_up import PEERS, load, weakest

BATCH = 1000
WARM = 10_000


def bytes_per_message(name: str) -> float | None:
    """Bytes beyond nothing, the body included; None for a queue on disk."""
    answer = subprocess.run([sys.executable, __file__, name], check=True, stdout=subprocess.PIPE, text=True)
    size: float | None = json.loads(answer.stdout.splitlines()[-1])
    return size


def _measure(name: str) -> float | None:
    queue_type = next(load(module, found) for module, found in PEERS if found == name)
    level = weakest(queue_type)
    if level is not Level.MEMORY or queue_type.count_for_memory is None:
        return None
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        queue = queue_type(Path(folder), level)
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
            fill(queue_type.count_for_memory)
            return (resident() - before) / queue_type.count_for_memory
        finally:
            queue.close()


def _resident_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
