# SPDX-License-Identifier: Apache-2.0
"""oxbus and every peer side by side: in memory, and surviving power loss."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from durable import disk
from durable.sizes import STEP, sizes_for
from peers.contract import BenchQueue, Level
from peers.line_up import EVERYONE, line_up, weakest
from side_by_side import weight
from side_by_side.measure import IN_MEMORY, SYNCED, WAKE_UP, Table, cases_of, label, one_round
from targets_on_disk import PEER_TARGETS
from turns import Found, Group, Turn

from suites.scratch import scratch
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.line_up import Contender
    from plan import Plan

SHAPES = {Level.MEMORY: IN_MEMORY, Level.FSYNC: SYNCED}
SECONDS = {Level.MEMORY: 0.4, Level.FSYNC: 0.6}
MOST = {Level.MEMORY: 10_000, Level.FSYNC: 20_000}
WEIGHT = "memory/100B/memory"


def _levels(table: Level, queue: type[BenchQueue]) -> list[Level]:
    """In memory means at the weakest level that a peer offers."""
    if table is Level.MEMORY:
        return [weakest(queue)]
    return [table] if table in queue.levels else []


def _table(table: Level, plan: Plan) -> Iterator[Group]:
    """Everyone at a level; then, in memory, what a waiting message takes."""
    shapes = [
        shape
        for shape in SHAPES[table]
        if any(plan.wants(table.value, case) for case in cases_of(shape, table).values())
    ]
    wakes = table is Level.MEMORY and plan.wants(table.value, WAKE_UP)
    weighs = table is Level.MEMORY and plan.wants(table.value, WEIGHT)
    if not shapes and not wakes and not weighs:
        return
    with scratch() as directory:
        found = disk.figures(directory, plan)
        lined_up = line_up(EVERYONE, partial(_levels, table), directory, plan)
        about = (lined_up.versions, lined_up.unavailable, found)
        if shapes or wakes:
            sizes = {
                one: sizes_for(one, directory, SECONDS[table] * plan.scale, plan.of(MOST[table], STEP))
                for one in lined_up.ready
            }
            turns = [
                Turn(label(one, table), partial(one_round, one, directory, Table(table, shapes), sizes[one], plan))
                for one in lined_up.ready
            ]
            yield Group(table.value, turns, None, *about)
        if weighs:
            in_memory = [one for one in lined_up.ready if one.level is Level.MEMORY and one.queue.count_for_memory]
            turns = [Turn(label(one, table), partial(_weigh, one, plan)) for one in in_memory]
            yield Group(table.value, turns, 1, *about)


def _weigh(contender: Contender, plan: Plan) -> Iterator[Found]:
    messages = plan.of(contender.queue.count_for_memory or 0, weight.BATCH)
    size = weight.bytes_per_message(contender.queue, messages)
    yield Found(WEIGHT, label(contender, Level.MEMORY), {"bytes_per_message": size}, contender.level.value)


SUITE = Suite(
    name="peers",
    text="oxbus and every peer side by side, in memory and surviving power loss",
    rounds=3,
    parts={level.value: partial(_table, level) for level in SHAPES},
    targets=PEER_TARGETS,
)
