# SPDX-License-Identifier: Apache-2.0
"""One contender's share of a round: it is opened once on an empty directory and does every shape in turn.

How many messages go through follows from how quick it was in the rehearsal, so that a shape takes about half a second.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import bodies_of
from cases.bus import BATCH
from durable import disk
from durable.workload import both_sides, one_thread, warm_up
from metrics import RATE
from peers.contract import Level
from targets import CEILING
from turns import Figures, Found

from side_by_side import wake_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from durable.sizes import Sizes
    from peers.contract import BenchQueue
    from peers.line_up import Contender
    from plan import Plan

PROBE_SECONDS = 0.15
WAKE_UP = "wake_up/100B/memory_thread"
WAKE_UPS = 300


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


def cases_of(shape: Shape, table: Level) -> dict[str, str]:
    """The cases that a shape measures in the table of a level, by operation."""
    operations = ("send_receive_complete",) if shape.sides else ("send", "send_receive_complete")
    return {operation: f"{operation}/{shape.payload}/{table}_{shape.name}" for operation in operations}


def label(contender: Contender, table: Level) -> str:
    """The name of a contender in a table, with its level where that differs from the table's."""
    return contender.queue.name if contender.level is table else str(contender)


@dataclass(frozen=True)
class Table:
    """A level, and what everyone does at it."""

    level: Level
    shapes: Sequence[Shape]


def one_round(contender: Contender, parent: Path, beside: Table, sizes: Sizes, plan: Plan) -> Iterator[Found]:
    """Open it, and let it do every shape."""
    table = beside.level
    name, level = label(contender, table), contender.level.value
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        directory = Path(folder)
        queue = contender.open(directory)
        try:
            warm_up(queue)
            in_process = contender.level is Level.MEMORY and queue.server_pid() is None
            for shape in beside.shapes:
                if in_process:  # once without a clock: a process asks the system for memory only once
                    _without_disk(queue, shape, sizes.of(shape.size))
                messages = sizes.of(shape.size)
                found = (
                    _beside_the_disk(queue, shape, messages, directory, PROBE_SECONDS * plan.scale)
                    if table is Level.FSYNC
                    else _without_disk(queue, shape, messages)
                )
                for operation, case in cases_of(shape, table).items():
                    yield Found(case, name, found[operation], level)
            if table is Level.MEMORY and contender.queue.name != CEILING and plan.wants(table.value, WAKE_UP):
                yield Found(WAKE_UP, name, level=level, samples=wake_up.samples_of(queue, plan.of(WAKE_UPS)))
        finally:
            queue.close()


def _without_disk(queue: BenchQueue, shape: Shape, messages: int, *, keep: bool = False) -> dict[str, Figures]:
    """Figures by operation."""
    bodies = bodies_of(shape.body_bytes, messages)
    if shape.sides:
        seconds = {"send_receive_complete": both_sides(queue, bodies, shape.size, shape.sides)}
    else:
        sent, cycle = one_thread(queue, bodies, shape.size, keep=keep)
        seconds = {"send": sent, "send_receive_complete": cycle}
    return {operation: {RATE: messages / spent} for operation, spent in seconds.items()}


def _beside_the_disk(
    queue: BenchQueue, shape: Shape, messages: int, directory: Path, probe_seconds: float
) -> dict[str, Figures]:
    """The same, set against what the disk does right before and right after."""
    appends, before = [disk.appends_per_s(directory, probe_seconds)], disk.flushes(directory)
    found = _without_disk(queue, shape, messages, keep=True)
    after = disk.flushes(directory)
    time.sleep(0.01)  # a server's late writes would lower the disk's rate
    appends.append(disk.appends_per_s(directory, probe_seconds))
    for figures in found.values():
        figures["ratio_to_append"] = figures[RATE] / statistics.mean(appends)
    if before is not None and after is not None:
        found["send_receive_complete"]["flushes_per_message"] = (after - before) / messages
    return found
