# SPDX-License-Identifier: Apache-2.0
"""Judges queues on disk by the targets, and measures what peers have no part in."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import targets
from cases.bus import BATCH
from record import ratio

from durable import disk as yardstick
from durable import recovery, senders, table
from durable.measure import PROBE_SECONDS, SCRATCH, measure

if TYPE_CHECKING:
    from record import Record


def run_durable(rounds: int, only: str, messages: int | None, record: Record) -> dict[str, object]:
    """Compare queues on disk; return what a reader needs to know of the disk and the peers."""
    found = measure(rounds, only=only, messages=messages)
    print(table.text(found))
    record.rows += found.rows()
    for target in targets.DURABLE_TARGETS:
        ours, theirs = found.ours(target.bench_id, target.figure), found.best_peer(target.bench_id, target.figure)
        if not ours or (target.peer and (only or not theirs)):
            record.not_judged(target, "not all peers took part")
        elif target.peer:
            record.judge(target, ratio(ours, theirs))
        else:
            record.judge(target, statistics.median(ours))
    if shares := found.os_share():
        record.judge(targets.OS_SHARE_TARGET, statistics.median(shares))
    if not only:
        _alone(found.disk, rounds, record)
    lined_up = found.line_up
    return {"disk": found.disk, "versions": lined_up.versions, "unavailable": lined_up.unavailable}


def _alone(disk: dict[str, float | str], rounds: int, record: Record) -> None:
    """Measure what peers have no part in: many senders, opening after a kill, room on disk."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}

    def note(bench_id: str, contender: str = targets.OURS, **figures: float) -> None:
        for figure, value in figures.items():
            found.setdefault((bench_id, contender), {}).setdefault(figure, []).append(value)

    def appends() -> float:
        return yardstick.appends_per_s(SCRATCH, PROBE_SECONDS)

    def bare_writes() -> float:
        return yardstick.side_by_side_per_s(SCRATCH, PROBE_SECONDS) * BATCH

    half_the_disk = float(disk["sequential_bytes_per_s"]) / 2
    for _ in range(rounds):
        before = appends()
        plain = senders.one_by_one(SCRATCH, 1, 2_000, partitioned=False)
        note("send/100B/durable_single_plain", ratio_to_append=plain / statistics.mean([before, appends()]))
        one = senders.one_by_one(SCRATCH, 1, 2_000)
        note("send/100B/durable_64_threads_single", ratio_to_one=senders.one_by_one(SCRATCH, 64, 32_000) / one)
        before = bare_writes()
        rate = senders.by_hundred(SCRATCH, 4, 200_000, 300)
        bare = statistics.mean([before, bare_writes()])
        note(
            targets.FOUR_THREADS,
            throughput_msg_per_s=rate,
            ratio_to_wanted=rate / min(1e6, half_the_disk / 300),
            ratio_to_bare_writes=rate / bare,
        )
        note(targets.FOUR_THREADS, targets.BARE_WRITES, throughput_msg_per_s=bare)
        for payload, body_bytes, messages in (("100B", 100, 1_000_000), ("1KiB", 1024, 300_000)):
            opened = recovery.reopen(SCRATCH, messages, body_bytes)
            note(f"reopen/{payload}/killed", bytes_per_core_s=opened["bytes_per_core_s"])
    note("reopen/100B/killed_5m", seconds=recovery.reopen(SCRATCH, 5_000_000)["seconds"])
    churned = recovery.churn(SCRATCH, 20_000)
    note("churn/1KiB/20_times", ratio_to_bound=churned["disk_bytes"] / churned["bound_bytes"])
    for (bench_id, contender), figures in found.items():
        record.add(bench_id, contender, figures, sync_mode="fsync")
    for target in targets.DURABLE_ALONE_TARGETS:
        record.judge(target, statistics.median(found[target.bench_id, targets.OURS][target.figure]))
