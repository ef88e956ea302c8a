# SPDX-License-Identifier: Apache-2.0
"""One contender's share of a round: it is opened once on an empty directory and does every shape in turn.

How many messages go through follows from how quick it was in the rehearsal, so that a shape takes about half a second.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import bodies_of
from cases.bus import BATCH
from durable import disk
from durable.workload import both_sides, one_thread, warm_up
from peers.contract import Level

from side_by_side import wake_up

if TYPE_CHECKING:
    from durable.contenders import Contender
    from durable.sizes import Sizes
    from peers.contract import BenchQueue

Figures = dict[str, float]
PROBE_SECONDS = 0.15


@dataclass(frozen=True)
class Shape:
    """A way to put messages through."""

    name: str
    payload: str
    body_bytes: int
    size: int
    sides: int = 0
    """Threads on each side; 0: one thread sends everything, then takes everything."""


IN_MEMORY = (
    Shape("single", "100B", 100, 1),
    Shape("single", "1KiB", 1024, 1),
    Shape("1+1_single", "1KiB", 1024, 1, 1),
    Shape("batch_100", "1KiB", 1024, BATCH),
    Shape("2+2_single", "1KiB", 1024, 1, 2),
    Shape("2+2_batch_100", "1KiB", 1024, BATCH, 2),
)
SYNCED = (
    Shape("single", "1KiB", 1024, 1),
    Shape("batch_100", "1KiB", 1024, BATCH),
    Shape("2+2_single", "1KiB", 1024, 1, 2),
    Shape("2+2_batch_100", "1KiB", 1024, BATCH, 2),
)


def one_round(
    contender: Contender, place: Path, shapes: tuple[Shape, ...], sizes: Sizes, wake_ups: int
) -> dict[str, Figures]:
    """Figures by bench id."""
    found: dict[str, Figures] = {}
    synced = contender.level is Level.FSYNC and shapes is SYNCED
    with tempfile.TemporaryDirectory(dir=place) as folder:
        directory = Path(folder)
        queue = contender.open(directory)
        try:
            warm_up(queue)
            in_process = contender.level is Level.MEMORY and queue.server_pid() is None
            for shape in shapes:
                if in_process:  # once without a clock: a process asks the system for memory only once
                    _shape(queue, shape, sizes.of(shape.size), None)
                found |= _shape(queue, shape, sizes.of(shape.size), directory if synced else None)
            if wake_ups:
                found["wake_up/100B/memory_thread"] = wake_up.figures(queue, wake_ups)
        finally:
            queue.close()
    return found


def _shape(queue: BenchQueue, shape: Shape, messages: int, disk_at: Path | None) -> dict[str, Figures]:
    bodies = bodies_of(shape.body_bytes, messages)
    level = "fsync" if disk_at else "memory"
    bench_id = f"{shape.payload}/{level}_{shape.name}"
    appends = [disk.appends_per_s(disk_at, PROBE_SECONDS)] if disk_at else []
    flushes = [disk.flushes(disk_at)] if disk_at else []
    if shape.sides:
        seconds = {"send_receive_complete": both_sides(queue, bodies, shape.size, shape.sides)}
    else:
        sent, cycle = one_thread(queue, bodies, shape.size, keep=disk_at is not None)
        seconds = {"send": sent, "send_receive_complete": cycle}
    rates = {operation: {"throughput_msg_per_s": messages / spent} for operation, spent in seconds.items()}
    if disk_at:
        flushes.append(disk.flushes(disk_at))
        time.sleep(0.01)  # what a server still writes is not the disk's own rate
        appends.append(disk.appends_per_s(disk_at, PROBE_SECONDS))
        for figures in rates.values():
            figures["ratio_to_append"] = figures["throughput_msg_per_s"] / (sum(appends) / len(appends))
        before, after = flushes
        if before is not None and after is not None:
            rates["send_receive_complete"]["flushes_per_message"] = (after - before) / messages
    return {f"{operation}/{bench_id}": figures for operation, figures in rates.items()}
