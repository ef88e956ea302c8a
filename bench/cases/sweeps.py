# SPDX-License-Identifier: Apache-2.0
"""One thing varied at a time: threads, messages per call, bytes per message.

Threads: each thread sends a part and takes as many messages as it sent, over and over.
Batch and body: one thread sends everything, then takes everything. The receiving thread reads the bodies.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bodies import bodies_of
from plan import WHOLE, Plan
from results_file import Point

from cases.case import Case, expect
from cases.lines import columns, lists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cases.lines import Ends, Line

THREADS = (1, 2, 4, 8)
THREADS_BODY = 1024
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
BODIES = (10, 100, 1024, 10_240, 102_400)
ROWS = 4096
CHUNK = 100
BYTES_PER_ROUND = 20_000_000
LIST_BYTES_MAX = 250_000
"""Limit of one list: an atomic list is as large as one message may be."""


@dataclass
class _State:
    queue: Any
    ends: list[Ends]
    parts: list[list[Any]]


def threads(plan: Plan = WHOLE) -> list[Case]:
    """1 to 8 threads, messages of 1 KiB."""
    found = []
    least = THREADS[-1] * CHUNK
    for at in THREADS:
        for line in lists():
            found += [
                _threads_case(line, at, "single", size=1, chunk=CHUNK, messages=plan.of(16_000, least)),
                _threads_case(line, at, "batch_100", size=100, chunk=CHUNK, messages=plan.of(48_000, least)),
            ]
        found += [
            _threads_case(line, at, f"arrow_{ROWS}", size=ROWS, chunk=ROWS, messages=plan.of(16 * ROWS, least))
            for line in columns()
        ]
    return found


def batches(plan: Plan = WHOLE) -> list[Case]:
    """1 to 4096 messages of 100 bytes in a call."""
    bodies = bodies_of(100, plan.of(4 * ROWS, 2 * CHUNK))
    found = []
    for size in BATCHES:
        found += [_case(line, Point("batch", size, "lists"), "100B", bodies, size) for line in lists()]
        if size > 1:  # no program sends a message as a column of one row
            found += [_case(line, Point("batch", size, "arrow"), "100B", bodies, size) for line in columns()]
    return found


def body_sizes(plan: Plan = WHOLE) -> list[Case]:
    """10 bytes to 100 KiB in a message."""
    found = []
    for size in BODIES:
        payload = f"{size}B" if size < 1024 else f"{size // 1024}KiB"
        count = plan.of(max(200, min(10_000, BYTES_PER_ROUND // size)), 20)
        bodies = bodies_of(size, count)
        by_list = max(1, min(100, LIST_BYTES_MAX // size))
        for line in lists():
            found.append(_case(line, Point("body", size, "single"), payload, bodies, 1))
            if by_list > 1:
                found.append(_case(line, Point("body", size, "batch_100"), payload, bodies, by_list))
        found += [_case(line, Point("body", size, "arrow"), payload, bodies, 1000) for line in columns()]
    return found


def _case(line: Line, point: Point, payload: str, bodies: list[bytes], size: int) -> Case:
    body_bytes = len(bodies[0])

    def run(state: _State) -> None:
        ends = state.ends[0]
        for part in state.parts[0]:
            ends.send(part)
        ends.take(len(bodies), size, body_bytes)

    bench_id = f"sweep_{point.axis}/{payload}/{point.line}_{point.at}"
    return _sweep_case(bench_id, line, point, len(bodies), prepare=partial(_prepare, line, [bodies], size), run=run)


def _threads_case(line: Line, at: int, shape: str, *, size: int, chunk: int, messages: int) -> Case:
    shares = [bodies_of(THREADS_BODY, messages // at) for _ in range(at)]
    per_call = max(1, chunk // size)
    total = sum(len(share) for share in shares)

    def work(ends: Ends, parts: Sequence[Any], counts: Sequence[int]) -> None:
        for start in range(0, len(parts), per_call):
            for part in parts[start : start + per_call]:
                ends.send(part)
            ends.take(sum(counts[start : start + per_call]), size, THREADS_BODY)

    def run(state: _State) -> None:
        work_of = [
            partial(work, ends, parts, [_rows(part) for part in parts])
            for ends, parts in zip(state.ends, state.parts, strict=True)
        ]
        if at == 1:
            work_of[0]()
        else:
            together(work_of)

    bench_id, prepare = f"sweep_threads/1KiB/{shape}_{at}", partial(_prepare, line, shares, size)
    return _sweep_case(bench_id, line, Point("threads", at, shape), total, prepare=prepare, run=run)


def _rows(part: Any) -> int:
    if type(part) is bytes:
        return 1
    return int(getattr(part, "num_rows", 0)) or len(part)


def _prepare(line: Line, shares: Sequence[list[bytes]], size: int) -> _State:
    queue = line.open()
    ends = [line.ends(queue) for _ in shares]
    parts = [one.parts(share, size) for one, share in zip(ends, shares, strict=True)]
    return _State(queue, ends, parts)


def _sweep_case(
    bench_id: str,
    line: Line,
    point: Point,
    operations: int,
    *,
    prepare: Callable[[], _State],
    run: Callable[[_State], None],
) -> Case:
    def check(state: _State, _answer: None) -> None:
        expect("messages left", line.remaining(state.queue), 0)

    def dispose(state: _State) -> None:
        line.close(state.queue)

    return Case(bench_id, line.name, operations, prepare, run, check, dispose, point)


def together(work: Sequence[Callable[[], None]]) -> None:
    """Do each piece of work in its own thread; raise the first error."""
    failures: list[Exception] = []

    def run(work_item: Callable[[], None]) -> None:
        try:
            work_item()
        except Exception as error:  # noqa: BLE001 -- raised again by the calling thread
            failures.append(error)

    workers = [threading.Thread(target=run, args=(work_item,)) for work_item in work]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
