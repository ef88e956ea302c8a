# SPDX-License-Identifier: Apache-2.0
"""Everything that lives in memory, beside the ceiling and what one writes by hand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import backlog
import ceiling
import latency
import list_lengths
import memory
import units
from cases import arrow, bulk, hashing, queueing, schedule, sessions, stages, sweeps, tasks, threads, topics
from metrics import RATE, SLOWEST
from results_file import Point
from targets import (
    BACKLOG_CASE,
    BACKLOG_OPERATIONS,
    BACKLOGS,
    CEILING,
    CORE_TARGETS,
    LIST_CASE,
    LIST_LENGTHS,
    LIST_PAYLOADS,
    MEMORY,
    MEMORY_ON_DISK,
    OURS,
    PACE,
    PEEKLOCK,
    SPARK_HASH,
    WAKE_UP,
)
from turns import Found, Group, Turn

from suites.of_cases import by_id, group_of
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cases.case import Case
    from plan import Plan

FEW_ROUNDS = 3
"""Rounds of slow cases that run in separate processes."""


def _spark(plan: Plan) -> Iterator[Group]:
    """The hash beside Spark's on one core."""
    if not plan.wants("spark", SPARK_HASH):
        return
    from peers.spark_hash import cases  # noqa: PLC0415 -- a Java machine

    with cases(plan) as found:
        yield group_of("spark", found)


def _latency(plan: Plan) -> Iterator[Group]:
    """Wake-ups, and the distribution of the calls of a cycle."""

    def wake_up(contender: str, times: Callable[[int], list[float]]) -> Iterator[Found]:
        yield Found(WAKE_UP, contender, samples=times(plan.of(latency.SAMPLES)))

    def calls() -> Iterator[Found]:
        for call, samples in latency.plain_calls(plan.of(latency.CALLS)).items():
            yield Found(f"call/100B/{call}", OURS, samples=samples)

    if plan.wants("latency", WAKE_UP):
        turns = [Turn(name, partial(wake_up, name, times)) for name, times in latency.CONTENDERS.items()]
        yield Group("latency", turns, FEW_ROUNDS)
    if any(plan.wants("latency", f"call/100B/{call}") for call in latency.PLAIN_CALLS):
        yield Group("latency", [Turn(OURS, calls)], 1)


def _paced(plan: Plan) -> Iterator[Group]:
    """One message per second, to a plain and to a partitioned queue."""

    def both() -> Iterator[Found]:
        for name, samples in latency.paced(plan.of(latency.PACED_MESSAGES)).items():
            yield Found(PACE, name, {SLOWEST: max(samples)}, samples=samples)

    if plan.wants("paced", PACE):
        yield Group("paced", [Turn(OURS, both)], 1)


def _memory(plan: Plan) -> Iterator[Group]:
    """Resident bytes per message at a million messages."""

    def size(case: str, contender: str, name: str, level: str) -> Iterator[Found]:
        least = memory.LEAST_ON_DISK if contender == memory.ON_DISK else memory.CHUNK
        found = memory.bytes_per_message(contender, plan.of(memory.MESSAGES, least))
        yield Found(case, name, {"bytes_per_message": found}, level)

    contenders = [name for name in memory.CONTENDERS if name != CEILING or ceiling.load() is not None]
    turns = [Turn(name, partial(size, MEMORY, name, name, "memory")) for name in contenders]
    on_disk = Turn(OURS, partial(size, MEMORY_ON_DISK, memory.ON_DISK, OURS, "os"))
    wanted = [
        *(turns if plan.wants("memory", MEMORY) else []),
        *([on_disk] if plan.wants("memory", MEMORY_ON_DISK) else []),
    ]
    if wanted:
        yield Group("memory", wanted, 1)


def _backlog(plan: Plan) -> Iterator[Group]:
    """Rates with up to ten million messages waiting."""

    def case_of(operation: str, size: int) -> str:
        return f"{BACKLOG_CASE}{size}".format(operation.replace(" ", "_"))

    def rates(contender: str, size: int) -> Iterator[Found]:
        waiting, sample = (plan.of(count, backlog.STEP) for count in (size, backlog.SAMPLE))
        for operation, rate in backlog.rates(contender, waiting, sample).items():
            yield Found(case_of(operation, size), contender, {RATE: rate}, point=Point("backlog", size, operation))

    turns = []
    for size in BACKLOGS:
        wanted = any(plan.wants("backlog", case_of(operation, size)) for operation in BACKLOG_OPERATIONS)
        if not wanted or not backlog.fits(plan.of(size)):
            continue
        turns.append(Turn(OURS, partial(rates, OURS, size)))
        if ceiling.load() is not None:
            turns.append(Turn(CEILING, partial(rates, CEILING, size)))
        if size <= backlog.PEERS_BACKLOG_MAX:
            turns.append(Turn(PEEKLOCK, partial(rates, PEEKLOCK, size), rounds_max=1))
    if turns:
        yield Group("backlog", turns, FEW_ROUNDS)


def _list_lengths(plan: Plan) -> Iterator[Group]:
    """Long lists beside short ones: operations timed one by one, the lengths in turns."""

    def case_of(operation: str, payload: str, length: int) -> str:
        return f"{LIST_CASE}{length}".format(f"{operation}/{payload}")

    def rates(contender: str, payload: str, length: int) -> Iterator[Found]:
        messages = plan.of(list_lengths.MESSAGES, LIST_LENGTHS[0])
        for operation, rate in list_lengths.rates(contender, payload, length, messages).items():
            yield Found(case_of(operation, payload, length), contender, {RATE: rate})

    for payload in LIST_PAYLOADS:
        lengths = [
            length
            for length in LIST_LENGTHS
            if any(plan.wants("list_lengths", case_of(one, payload, length)) for one in list_lengths.OPERATIONS)
        ]
        turns = [
            Turn(name, partial(rates, name, payload, length), warm_up=partial(_exhaust, rates, name, payload, length))
            for length in lengths
            for name in list_lengths.contenders()
        ]
        if turns:
            yield Group("list_lengths", turns)


def _exhaust(rates: Callable[[str, str, int], Iterator[Found]], contender: str, payload: str, length: int) -> None:
    """Measure, and leave out what was found."""
    for _ in rates(contender, payload, length):
        pass


def _units(plan: Plan) -> Iterator[Group]:
    """Memory and time of one queue and of one session, as their number grows."""

    def measure_one(kind: str, count: int) -> Iterator[Found]:
        point = Point(kind, count, "per unit")
        yield Found(f"{kind}/100B/{count}", OURS, units.measure(kind, plan.of(count)), point=point)

    turns = [
        Turn(OURS, partial(measure_one, kind, count))
        for kind, counts in units.COUNTS.items()
        for count in counts
        if plan.wants("units", f"{kind}/100B/{count}")
    ]
    if turns:
        yield Group("units", turns, 1)


CASES: dict[str, Callable[[Plan], list[Case]]] = {
    "hash": hashing.cases,
    "queue": queueing.cases,
    "session": sessions.cases,
    "topic": topics.cases,
    "schedule": schedule.cases,
    "arrow": arrow.cases,
    "bulk": bulk.cases,
    "stages": stages.cases,
    "threads": threads.cases,
    "asyncio": tasks.cases,
}
SWEEPS: dict[str, Callable[[Plan], list[Case]]] = {
    "sweep_threads": sweeps.threads,
    "sweep_batch": sweeps.batches,
    "sweep_body": sweeps.body_sizes,
}
SUITE = Suite(
    name="core",
    text="cases in memory, compared with the ceiling and a hand-written queue",
    rounds=5,
    parts={
        **{name: partial(by_id, name, cases) for name, cases in CASES.items()},
        **{name: partial(by_id, name, cases, together=True) for name, cases in SWEEPS.items()},
        "spark": _spark,
        "latency": _latency,
        "paced": _paced,
        "memory": _memory,
        "list_lengths": _list_lengths,
        "backlog": _backlog,
        "units": _units,
    },
    targets=CORE_TARGETS,
)
