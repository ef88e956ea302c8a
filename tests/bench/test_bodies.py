# SPDX-License-Identifier: Apache-2.0
"""Figures are those of programs that read the body of each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bodies
import pyarrow as pa
import pytest
from cases import arrow, bulk, queueing, schedule, sessions, sweeps, threads, topics
from cases.case import Case, WrongAnswerError, seconds_of_one_round
from peers.contract import Level
from peers.in_process import Ceiling, PeekLock, SimpleQueue
from peers.oxbus_queue import OxbusQueue
from plan import Plan
from reporting import readme_tables, tables
from targets import CEILING, OURS, PEEKLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contract import BenchQueue

WRONG = b"?"
PLAN = Plan(scale=0.02)


def one_is_wrong(size: int, count: int) -> list[bytes]:
    """As many bodies of the same length, of which the last does not end as it should."""
    return [*bodies.bodies_of(size, count - 1), WRONG * size]


def wrong_cases(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Every case that hands out messages, with one body that is not as it was sent."""
    for module in (arrow, bulk, queueing, schedule, sessions, sweeps, threads, topics):
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
        *arrow.cases(PLAN),
        *bulk.cases(PLAN),
        *sweeps.batches(PLAN),
    ]
    hands_out = ("receive", "sweep_", "bulk_peek")
    return [case for case in found if any(word in case.id for word in hands_out)]


def reads(case: Case) -> bool:
    """Whether it finds the body that is not as it was sent."""
    try:
        seconds_of_one_round(case)
    except WrongAnswerError as error:
        return "bod" in str(error)
    return False


def test_case_that_receives_refuses_a_body_that_is_not_as_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases once counted messages and left their bodies alone; those that still do say so in their id."""
    found = wrong_cases(monkeypatch)
    assert {case.contender for case in found} >= {OURS, PEEKLOCK, CEILING, "queue.SimpleQueue", "oxbus, Arrow"}
    try:
        wrong = [str(case) for case in found if reads(case) == case.id.endswith(bodies.UNREAD)]
    finally:
        for made in (arrow.keyless_batch, arrow.keyed_batch, bulk.batch):
            made.cache_clear()
    assert wrong == []


@pytest.mark.parametrize("kind", [OxbusQueue, PeekLock, Ceiling, SimpleQueue])
@pytest.mark.parametrize("size", [1, 100])
def test_peer_reads_what_it_drains(kind: type[BenchQueue], size: int, tmp_path: Path) -> None:
    """Side by side, in memory, only counts were looked at."""
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


def test_no_target_is_of_a_case_that_leaves_bodies() -> None:
    """Judged is what users do."""
    assert not [text for text, target in tables.KNOWN.items() if bodies.UNREAD in target.case]
    assert not [bench_id for bench_id in readme_tables.IN_MEMORY.values() if bodies.UNREAD in bench_id]
