# SPDX-License-Identifier: Apache-2.0
"""The measured programs read the body of each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bodies
import pyarrow as pa
import pytest
from cases import arrow, bulk, queueing, schedule, sessions, sweeps, tasks, threads, topics
from cases.case import Case, WrongAnswerError, seconds_of_one_round
from peers.contract import Level
from peers.in_process import Ceiling, PeekLock, SimpleQueue
from peers.oxbus_queue import OxbusQueue
from plan import Plan
from reporting import readme_tables, tables
from targets import CEILING, OURS, PEEKLOCK, THREADS

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contract import BenchQueue

WRONG = b"?"
PLAN = Plan(scale=0.02)


def one_is_wrong(size: int, count: int) -> list[bytes]:
    """`count` bodies of the same length; the last one has a wrong end."""
    return [*bodies.bodies_of(size, count - 1), WRONG * size]


def wrong_cases(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Every case that delivers messages, with one wrong body."""
    for module in (arrow, bulk, queueing, schedule, sessions, sweeps, tasks, threads, topics):
        monkeypatch.setattr(module, "bodies_of", one_is_wrong)
    for made in (arrow.keyless_batch, arrow.keyed_batch, bulk.batch):
        made.cache_clear()
    monkeypatch.setattr(sweeps, "BATCHES", (1, 64))
    found = [
        *queueing.cases(PLAN),
        *schedule.cases(PLAN),
        *sessions.cases(PLAN),
        *topics.cases(PLAN),
        *threads.cases(PLAN),
        *tasks.cases(PLAN),
        *arrow.cases(PLAN),
        *bulk.cases(PLAN),
        *sweeps.batches(PLAN),
    ]
    hands_out = ("receive", "asyncio/", "sweep_", "bulk_peek")
    return [case for case in found if any(word in case.id for word in hands_out)]


def reads(case: Case) -> bool:
    """Whether the case detects the wrong body."""
    try:
        seconds_of_one_round(case)
    except WrongAnswerError as error:
        return "bod" in str(error)
    return False


def test_case_that_receives_rejects_a_wrong_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases once counted messages without reading the bodies; the id of a case that still does shows it."""
    found = wrong_cases(monkeypatch)
    assert {case.contender for case in found} >= {OURS, PEEKLOCK, CEILING, "queue.SimpleQueue", "oxbus, Arrow", THREADS}
    try:
        wrong = [str(case) for case in found if reads(case) == case.id.endswith(bodies.UNREAD)]
    finally:
        for made in (arrow.keyless_batch, arrow.keyed_batch, bulk.batch):
            made.cache_clear()
    assert wrong == []


@pytest.mark.parametrize("kind", [OxbusQueue, PeekLock, Ceiling, SimpleQueue])
@pytest.mark.parametrize("size", [1, 100])
def test_peer_reads_the_bodies_it_drains(kind: type[BenchQueue], size: int, tmp_path: Path) -> None:
    """The comparisons in memory once checked only counts."""
    queue = kind(tmp_path, Level.MEMORY)
    kept: list[bytes] = []
    right = bodies.bodies_of(100, 200)
    queue.send_all(right, size)
    assert queue.drain(200, size, 1, 100, kept) == 200
    assert sorted(kept) == right
    queue.send_all(one_is_wrong(100, 200), size)
    with pytest.raises(WrongAnswerError):
        queue.drain(200, size, 1, 100)
    queue.close()


@pytest.mark.parametrize("wrong", [WRONG * 20, b"x" * 20 + bodies.END, b""])
def test_length_and_last_byte_are_checked(wrong: bytes) -> None:
    """Of one body, and of one row among others."""
    right = bodies.bodies_of(20, 3)
    assert len(set(right)) == 3
    assert [bodies.read_bytes(body, 20) for body in right] == right
    bodies.read_column(pa.array(right, pa.binary()), 20)
    bodies.read_column(pa.array([], pa.binary()), 20)
    with pytest.raises(WrongAnswerError):
        bodies.read_bytes(wrong, 20)
    with pytest.raises(WrongAnswerError):
        bodies.read_column(pa.array([*right, wrong], pa.binary()), 20)


def test_no_target_has_a_case_that_skips_bodies() -> None:
    """Targets judge only cases that read bodies, as users do."""
    assert not [text for text, target in tables.KNOWN.items() if bodies.UNREAD in target.case]
    assert not [bench_id for bench_id in readme_tables.IN_MEMORY.values() if bodies.UNREAD in bench_id]
