# SPDX-License-Identifier: Apache-2.0
"""The tables of README.md: in memory beside what one writes by hand and the ceiling, on disk beside the best peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import RATE
from results_file import ratio
from targets import OURS, PEEKLOCK, WAKE_UP

from reporting.style import short
from reporting.tables import column, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from results_file import Row, Run

_CYCLE = "send_receive_complete"
IN_MEMORY = {
    "one by one, 1 KiB": f"{_CYCLE}/1KiB/single",
    "by 100, 1 KiB": f"{_CYCLE}/1KiB/batch_100",
    "two sending and two receiving threads by 100, 1 KiB": f"{_CYCLE}/1KiB/2+2_batch_100",
}
ON_DISK = {
    "one thread by 100": f"{_CYCLE}/100B/durable_batch_100",
    "two sending and two receiving threads by 100": f"{_CYCLE}/100B/durable_2+2_batch_100",
}
SYNCED = ", fsync"


def in_memory(run: Run) -> list[str]:
    """Rates with all bodies read, as ratios to the yardsticks in the same rounds."""
    lines = []
    for work, bench_id in IN_MEMORY.items():
        here = _rows(run, bench_id)
        if OURS in here:
            ours, by_hand, share = here[OURS], here.get(PEEKLOCK), run.share_of_ceiling(here[OURS])
            beside = f"{_over(ours, by_hand):.2f}" if by_hand else ""
            lines.append([work, short(ours[RATE]), beside, f"{share:.2f}" if share is not None else ""])
    head = [
        "Send, receive, read and complete",
        "messages per second",
        "ratio to the hand-written queue",
        "ratio to the ceiling",
    ]
    return [*table(head, lines), *_woken(_rows(run, WAKE_UP))]


def on_disk(run: Run) -> list[str]:
    """Rates with every send and completion synced, and the best of the others."""
    lines = []
    for work, bench_id in ON_DISK.items():
        synced = {name: rate for name, rate in column(run, bench_id).items() if name.endswith(SYNCED)}
        ours = synced.pop(f"{OURS}{SYNCED}", None)
        if ours is not None and synced:
            best = max(synced, key=lambda name: synced[name])
            lines.append([work, short(ours), f"{short(synced[best])} ({best.removesuffix(SYNCED)})"])
    return table(["Send, receive, read and complete, 100 B", "oxbus, messages per second", "best of the others"], lines)


def _rows(run: Run, bench_id: str) -> dict[str, Row]:
    return {row.contender: row for row in run.of(bench_id)}


def _over(ours: Row, theirs: Row) -> float:
    return ratio(ours.values[RATE], theirs.values[RATE])


def _woken(here: Mapping[str, Row]) -> list[str]:
    if not {OURS, PEEKLOCK} <= here.keys():
        return []
    ours, by_hand = (
        f"{here[name]['latency_us_p50']:.3g} µs (p50) or {here[name]['latency_us_p99']:.3g} µs (p99)"
        for name in (OURS, PEEKLOCK)
    )
    after = f"{ours} after the send; with the hand-written queue {by_hand}."
    return ["", f"A receiver that waits in another thread gets the body {after}"]
