# SPDX-License-Identifier: Apache-2.0
"""Queues on disk: oxbus, four peers and the disk itself in one directory; what peers have no part in."""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

from cases.bus import BATCH
from durable import disk, entities, recovery, senders
from durable.measure import PROBE_SECONDS, SHAPES, one_round, sizes_of
from metrics import RATE
from peers.line_up import DURABLE, line_up
from targets import BARE_WRITES, OURS
from targets_on_disk import CREATED, DURABLE_TARGETS, FOUR_THREADS
from turns import Found, Group, Turn

from suites.scratch import scratch
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from plan import Plan
    from turns import Figures

SYNCED = "fsync"


def _queues(plan: Plan) -> Iterator[Group]:
    """A group for each shape."""
    shapes = [shape for shape in SHAPES if any(plan.wants("queues", case) for case in shape.cases().values())]
    if not shapes:
        return
    with scratch() as directory:
        found = disk.figures(directory, plan)
        lined_up = line_up(DURABLE, lambda queue: queue.levels, directory, plan)
        appends = float(found["append_fdatasync_per_s"])
        sizes = {contender: sizes_of(contender, directory, appends, plan) for contender in lined_up.ready}
        for shape in shapes:
            turns = [
                Turn(str(contender), partial(one_round, contender, directory, shape, sizes[contender], plan))
                for contender in lined_up.ready
            ]
            yield Group("queues", turns, None, lined_up.versions, lined_up.unavailable, found)


def _one_sender(directory: Path, plan: Plan) -> Iterator[Found]:
    """To a queue without partitions, beside the disk's appends."""
    before = disk.appends_per_s(directory, PROBE_SECONDS * plan.scale)
    rate = senders.one_by_one(directory, 1, plan.of(2_000), partitioned=False)
    appends = statistics.mean([before, disk.appends_per_s(directory, PROBE_SECONDS * plan.scale)])
    yield _ours("send/100B/durable_single_plain", {"ratio_to_append": rate / appends})


def _many_senders(directory: Path, plan: Plan) -> Iterator[Found]:
    """64 threads beside one."""
    one = senders.one_by_one(directory, 1, plan.of(2_000))
    many = senders.one_by_one(directory, 64, plan.of(32_000))
    yield _ours("send/100B/durable_64_threads_single", {"ratio_to_one": many / one})


def _four_senders(directory: Path, plan: Plan) -> Iterator[Found]:
    """Beside four threads that only write as much, and beside half of what the disk takes."""

    def bare_writes() -> float:
        return disk.side_by_side_per_s(directory, PROBE_SECONDS * plan.scale) * BATCH

    half_the_disk = disk.sequential_bytes_per_s(directory, plan.of(256 << 20, 1 << 20)) / 2
    before = bare_writes()
    rate = senders.by_hundred(directory, 4, plan.of(200_000) // BATCH * BATCH, 300)
    bare = statistics.mean([before, bare_writes()])
    figures = {RATE: rate, "ratio_to_wanted": rate / min(1e6, half_the_disk / 300), "ratio_to_bare_writes": rate / bare}
    yield _ours(FOUR_THREADS, figures)
    yield Found(FOUR_THREADS, BARE_WRITES, {RATE: bare}, SYNCED)


def _reopen(directory: Path, plan: Plan, *, case: str, metric: str, messages: int, body_bytes: int) -> Iterator[Found]:
    """Opening what a killed process left."""
    yield _ours(case, {metric: recovery.reopen(directory, plan.of(messages), body_bytes)[metric]})


def _churn(directory: Path, plan: Plan) -> Iterator[Found]:
    """The room on disk after much went through."""
    churned = recovery.churn(directory, plan.of(20_000, recovery.LIST))
    yield _ours("churn/1KiB/20_times", {"ratio_to_bound": churned["disk_bytes"] / churned["bound_bytes"]})


def _entities(directory: Path, plan: Plan) -> Iterator[Found]:
    """Queues created one after another, beside the disk's appends."""
    before = disk.appends_per_s(directory, PROBE_SECONDS * plan.scale)
    per_s, slowdown = entities.create(directory, plan.of(4_000, 4))
    appends = statistics.mean([before, disk.appends_per_s(directory, PROBE_SECONDS * plan.scale)])
    yield _ours(CREATED, {RATE: per_s, "ratio_to_append": per_s / appends, "slowdown": slowdown})


def _ours(case: str, figures: Figures) -> Found:
    return Found(case, OURS, figures, SYNCED)


ALONE: dict[str, tuple[Callable[[Path, Plan], Iterator[Found]], int | None]] = {
    "send/100B/durable_single_plain": (_one_sender, None),
    "send/100B/durable_64_threads_single": (_many_senders, None),
    FOUR_THREADS: (_four_senders, None),
    **{
        case: (partial(_reopen, case=case, metric=metric, messages=messages, body_bytes=body_bytes), rounds_max)
        for case, metric, messages, body_bytes, rounds_max in (
            ("reopen/100B/killed", "bytes_per_core_s", 1_000_000, 100, None),
            ("reopen/1KiB/killed", "bytes_per_core_s", 300_000, 1024, None),
            ("reopen/100B/killed_5m", "seconds", 5_000_000, 100, 1),
        )
    },
    "churn/1KiB/20_times": (_churn, 1),
    CREATED: (_entities, None),
}
"""The measurement of each case, and its maximum number of rounds."""


def _alone(plan: Plan) -> Iterator[Group]:
    """Cases without peers; only when all contenders run."""
    with scratch() as directory:
        turns = [
            Turn(OURS, partial(measure, directory, plan), rounds_max=rounds_max)
            for case, (measure, rounds_max) in ALONE.items()
            if plan.wants("alone", case)
        ]
        if turns and plan.everyone:
            yield Group("alone", turns)


SUITE = Suite(
    name="durable",
    text="queues on disk at three levels, many senders, opening after a kill, room on disk",
    rounds=3,
    parts={"queues": _queues, "alone": _alone},
    targets=DURABLE_TARGETS,
)
