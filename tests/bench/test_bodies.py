# SPDX-License-Identifier: Apache-2.0
"""Figures are those of programs that read the body of each message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import bodies
import pyarrow as pa
import pytest
import report
import results_file
from cases import arrow, bulk, queueing, schedule, sessions, sweeps, threads, topics
from cases.case import Case, WrongAnswerError, seconds_of_one_round
from peers.contract import Level
from peers.in_process import Ceiling, PeekLock, SimpleQueue
from peers.oxbus_queue import OxbusQueue
from reporting import readme_tables, tables
from reporting.loaded import RATE, Run, newest_with
from targets import CEILING, OURS, PEEKLOCK, WAKE_UP

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contract import BenchQueue

WRONG = b"?"
MESSAGES = 400


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
    monkeypatch.setattr(sweeps, "ROWS", MESSAGES)
    monkeypatch.setattr(bulk, "ROWS", MESSAGES)
    found = [
        *queueing.cases(MESSAGES),
        *schedule.cases(MESSAGES),
        *sessions.cases(MESSAGES),
        *topics.cases(MESSAGES),
        *threads.cases(MESSAGES),
        *arrow.cases(),
        *bulk.cases(),
        *sweeps.batches(),
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
    assert not [text for text, target in tables.KNOWN.items() if bodies.UNREAD in target.bench_id]
    assert not [bench_id for bench_id in readme_tables.IN_MEMORY.values() if bodies.UNREAD in bench_id]


def row(bench_id: str, contender: str, rate: float, **more: Any) -> dict[str, Any]:
    """A row of a result file."""
    return {"id": bench_id, "contender": contender, RATE: rate, "spread": {RATE: 0.0}, "rounds": {RATE: [rate]}, **more}


def document(rows: list[dict[str, Any]], **head: Any) -> dict[str, Any]:
    """A result file."""
    machine = {"processor": "one", "cores": 2, "python": "3", "load_before": 0.0}
    return {"commit": "c", "machine": machine, "rounds": 1, "file": "f.json", **head, "results": rows}


def test_reports_leave_out_cases_that_leave_bodies() -> None:
    """They stay in the result file."""
    single = "send_receive_complete/100B/single"
    run = Run(document([row(single, OURS, 1e6), row(f"{single}{bodies.UNREAD}", OURS, 9e6)]))
    shown = "\n".join([*tables.cases(run), *readme_tables.in_memory(run)])
    assert "1 M" in shown
    assert "9 M" not in shown


@pytest.mark.parametrize(("kind", "counts"), [("memory", False), ("peers", False), ("durable", True), ("amqp", True)])
def test_files_from_before_bodies_were_read_are_not_reported(
    kind: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ids are those of cases that read bodies today; durable queues and brokers were always read."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    rows = [row("send_receive_complete/100B/single", OURS, 9e6)]
    old, new = tmp_path / "1.json", tmp_path / "2.json"
    old.write_text(json.dumps(document(rows, kind=kind)), encoding="utf-8")
    assert (newest_with(kind, "send_receive_complete/") is not None) == counts
    new.write_text(json.dumps(document(rows, kind=kind, **results_file.BODIES)), encoding="utf-8")
    run = newest_with(kind, "send_receive_complete/")
    assert run is not None
    assert run.file == "2.json"


def test_readme_shows_ratios_of_the_same_rounds(tmp_path: Path) -> None:
    """A part that nothing was measured for says so, and keeps no figure of before."""
    single = "send_receive_complete/1KiB/single"
    ours = row(single, OURS, 5e5, ratio_to_ceiling=0.38)
    woken = [row(WAKE_UP, name, 0, latency_us_p50=p50, latency_us_p99=60) for name, p50 in ((OURS, 22), (PEEKLOCK, 18))]
    run = Run(document([ours, row(single, PEEKLOCK, 4e5), *woken]))
    page = tmp_path / "page.md"
    place = "<!-- report: {} -->\n4.46\n<!-- end of report -->\n"
    page.write_text(place.format("speed") + place.format("other"), encoding="utf-8")
    report.fill([page], {"speed": readme_tables.in_memory(run)})
    found = page.read_text(encoding="utf-8")
    assert "| one by one, 1 KiB | 500 k | 1.25 | 0.38 |" in found
    assert "22 / 60 µs (p50 / p99), by hand after 18 / 60 µs" in found
    assert report.NOT_MEASURED[0] in found
    assert "4.46" not in found
    with pytest.raises(SystemExit, match="no page has a place for speed-on-disk"):
        report.fill([page], {"speed-on-disk": []})
