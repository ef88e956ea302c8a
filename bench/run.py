# SPDX-License-Identifier: Apache-2.0
"""Runs oxbus and its peers in turn and prints how they compare.

    python bench/run.py                  everything
    python bench/run.py --case hash      hash, queue, arrow, bulk, stages, threads, latency, memory, backlog
    python bench/run.py --rounds 9       more rounds
    python bench/run.py --case paths     rows through Spark by each path; only when asked for
    python bench/run.py --case durable   queues on disk; only when asked for, and with a file of its own

The contenders of one case take turns within each round, so a busy machine slows all of them.
Figures are medians over the rounds; ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
import memory
import targets
from cases import arrow, bulk, hashing, queueing, schedule, sessions, spark_paths, stages, threads, topics
from cases.case import Case, seconds_of_one_round
from targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RESULTS = Path(__file__).parent / "results"
GROUPS: dict[str, Callable[[], list[Case]]] = {
    "hash": hashing.cases,
    "queue": queueing.cases,
    "session": sessions.cases,
    "topic": topics.cases,
    "schedule": schedule.cases,
    "arrow": arrow.cases,
    "bulk": bulk.cases,
    "stages": stages.cases,
    "threads": threads.cases,
}
OTHERS = ("latency", "memory", "backlog")
DURABLE = "durable"
SPARK_PATHS = "paths"
OURS = "oxbus"


@dataclass
class Results:
    """What one run found, in the order it was measured."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def add(self, bench_id: str, contender: str, **figures: float) -> None:
        """Note and print the figures of one contender."""
        empty = {"throughput_msg_per_s": None, "latency_us_p50": None, "latency_us_p99": None}
        self.rows.append({"id": bench_id, "contender": contender, **empty, **figures})
        shown = "  ".join(f"{name} {value:{',.0f' if value >= 1e3 else '.4g'}}" for name, value in figures.items())
        print(f"{bench_id:45} {contender:24} {shown}", flush=True)

    def judge(self, target: Target, found: float) -> None:
        """Note whether a target is met."""
        met = found >= target.wanted if target.at_least else found <= target.wanted
        sign = ">=" if target.at_least else "<="
        verdict = f"{'met   ' if met else 'MISSED'} {target.text}: {found:,.3g} (wanted {sign} {target.wanted:,.3g})"
        self.verdicts.append(verdict)
        self.rows.append({"target": target.text, "found": found, "wanted": target.wanted, "met": met})


def run_cases(cases: Iterable[Case], rounds: int, results: Results) -> None:
    """Measure the cases, contenders of the same id in turn."""
    by_id: dict[str, list[Case]] = {}
    for case in cases:
        by_id.setdefault(case.id, []).append(case)
    for bench_id, contenders in by_id.items():
        for case in contenders:
            seconds_of_one_round(case)  # warm up
        rates: dict[str, list[float]] = {case.contender: [] for case in contenders}
        for number in range(rounds):
            for case in contenders if number % 2 == 0 else reversed(contenders):
                rates[case.contender].append(case.operations / seconds_of_one_round(case))
        for contender, found in rates.items():
            results.add(bench_id, contender, throughput_msg_per_s=statistics.median(found))
        _judge_rates(bench_id, rates, results)


def _judge_rates(bench_id: str, rates: dict[str, list[float]], results: Results) -> None:
    for target in TARGETS:
        if target.bench_id != bench_id:
            continue
        if target.peer is None:
            results.judge(target, statistics.median(rates[OURS]))
        elif target.peer in rates:
            pairs = zip(rates[OURS], rates[target.peer], strict=True)
            results.judge(target, statistics.median(ours / theirs for ours, theirs in pairs))


def run_spark(rounds: int, results: Results) -> None:
    """Compare the hash with Spark's on one core."""
    from peers import spark_hash  # noqa: PLC0415 -- starts a Java machine

    ours = next(case for case in hashing.cases() if case.contender == OURS)
    rates, ratios = [], []
    for seconds in spark_hash.seconds_per_round(rounds):
        rates.append(hashing.KEYS * spark_hash.COPIES / seconds)
        ratios.append(ours.operations / seconds_of_one_round(ours) / rates[-1])
    results.add(ours.id, "Spark, one core", throughput_msg_per_s=statistics.median(rates))
    for target in TARGETS:
        if target.bench_id == ours.id and target.peer == "Spark, one core":
            results.judge(target, statistics.median(ratios))


def run_latency(results: Results) -> None:
    """Compare wake-ups."""
    import latency  # noqa: PLC0415

    found = latency.measure()
    for contender, figures in found.items():
        results.add("wake_up/100B/thread", contender, **figures)
    for target in TARGETS:
        if target.bench_id == "wake_up/100B/thread" and target.peer is not None:
            results.judge(target, found[OURS][target.figure] / found[target.peer][target.figure])


def run_memory(results: Results) -> None:
    """Resident bytes per message at a million messages."""
    for contender in memory.CONTENDERS:
        size = memory.bytes_per_message(contender)
        results.add("memory/100B/1m", contender, bytes_per_message=size)
        for target in TARGETS:
            if target.bench_id == "memory/100B/1m" and target.peer == contender:
                results.judge(target, size - memory.BODY_BYTES)


def run_backlog(rounds: int, results: Results) -> None:
    """Rates with a million messages waiting against ten thousand."""
    small, large = [], []
    for _ in range(rounds):
        small.append(memory.backlog_rates(10_000))
        large.append(memory.backlog_rates(1_000_000))
    for operation in small[0]:
        bench_id = f"{operation.replace(' ', '_')}/100B/backlog"
        ratios = [many[operation] / few[operation] for few, many in zip(small, large, strict=True)]
        results.add(bench_id, "backlog 10 k", throughput_msg_per_s=statistics.median(one[operation] for one in small))
        results.add(bench_id, "backlog 1 M", throughput_msg_per_s=statistics.median(one[operation] for one in large))
        text = f"{operation}: rate at 1 M backlog / rate at 10 k"
        results.judge(Target(bench_id, text, 0.8), statistics.median(ratios))


def run_durable(options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Compare queues on disk; return what a reader needs to know of the disk and the peers."""
    from durable import table  # noqa: PLC0415 -- needs the packages of the peers
    from durable.measure import measure  # noqa: PLC0415

    found = measure(options.rounds, only=options.contender, messages=options.messages)
    print(table.text(found))
    results.rows += found.rows()
    for target in targets.DURABLE_TARGETS:
        ours, theirs = found.ours(target.bench_id, target.figure), found.best_peer(target.bench_id, target.figure)
        if not ours or (target.peer and not theirs):
            results.verdicts.append(f"not measured {target.text}")
        elif target.peer:
            results.judge(target, statistics.median(one / best for one, best in zip(ours, theirs, strict=True)))
        else:
            results.judge(target, statistics.median(ours))
    if shares := found.os_share():
        target = targets.Target("send/100B/durable_batch_100", "os by 100 / in memory by 100", 0.5)
        results.judge(target, statistics.median(shares))
    if not options.contender:
        run_durable_alone(found.disk, options.rounds, results)
    lined_up = found.line_up
    return {"disk": found.disk, "versions": lined_up.versions, "unavailable": lined_up.unavailable}


def run_durable_alone(disk: dict[str, float | str], rounds: int, results: Results) -> None:
    """Measure what peers have no part in: many senders, opening after a kill, room on disk, `os` beside memory."""
    from durable import disk as yardstick  # noqa: PLC0415
    from durable import recovery, senders  # noqa: PLC0415 -- they need pyarrow
    from durable.measure import PROBE_SECONDS, SCRATCH  # noqa: PLC0415

    found: dict[str, list[float]] = {}

    def note(bench_id: str, figure: str, value: float) -> None:
        found.setdefault(f"{bench_id} {figure}", []).append(value)

    def appends() -> float:
        return yardstick.appends_per_s(SCRATCH, PROBE_SECONDS)

    half_the_disk = float(disk["sequential_bytes_per_s"]) / 2
    for _ in range(rounds):
        before = appends()
        plain = senders.one_by_one(SCRATCH, 1, 2_000, partitioned=False)
        note("send/100B/durable_single_plain", "ratio_to_append", plain / statistics.mean([before, appends()]))
        one = senders.one_by_one(SCRATCH, 1, 2_000)
        note("send/100B/durable_64_threads_single", "ratio_to_one", senders.one_by_one(SCRATCH, 64, 32_000) / one)
        rate = senders.by_hundred(SCRATCH, 4, 200_000, 300)
        note("send/300B/durable_4_threads_batch_100", "ratio_to_wanted", rate / min(1e6, half_the_disk / 300))
        for payload, body_bytes, messages in (("100B", 100, 1_000_000), ("1KiB", 1024, 300_000)):
            opened = recovery.reopen(SCRATCH, messages, body_bytes)
            note(f"reopen/{payload}/killed", "bytes_per_core_s", opened["bytes_per_core_s"])
    note("reopen/100B/killed_5m", "seconds", recovery.reopen(SCRATCH, 5_000_000)["seconds"])
    churned = recovery.churn(SCRATCH, 20_000)
    note("churn/1KiB/20_times", "ratio_to_bound", churned["disk_bytes"] / churned["bound_bytes"])
    for name, values in found.items():
        bench_id, figure = name.split()
        results.add(bench_id, OURS, **{figure: statistics.median(values)})
        for target in targets.DURABLE_ALONE_TARGETS:
            if (target.bench_id, target.figure) == (bench_id, figure):
                results.judge(target, statistics.median(values))


def main() -> int:
    """Run what was asked for, print it, keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--case",
        action="append",
        choices=[*GROUPS, "spark", *OTHERS, SPARK_PATHS, DURABLE],
        help="only this; repeatable",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-save", action="store_true", help="do not write a file into bench/results")
    durable = parser.add_argument_group("with --case durable")
    durable.add_argument("--contender", default="", help="only those whose name and level contain this: redis, fsync")
    durable.add_argument("--messages", type=int, help="how many one by one; by the hundred five times as many")
    options = parser.parse_args()
    chosen = options.case or [*GROUPS, "spark", *OTHERS]

    results = Results()
    began = time.perf_counter()
    for group, cases in GROUPS.items():
        if group in chosen:
            run_cases(cases(), options.rounds, results)
    if "spark" in chosen:
        run_spark(options.rounds, results)
    if "latency" in chosen:
        run_latency(results)
    if "memory" in chosen:
        run_memory(results)
    if "backlog" in chosen:
        run_backlog(min(options.rounds, 3), results)
    if SPARK_PATHS in chosen:
        run_cases(spark_paths.cases(), options.rounds, results)
    about_disk = run_durable(options, results) if DURABLE in chosen else {}

    print("\nTargets")
    print("\n".join(results.verdicts))
    if not options.no_save:
        now = datetime.now(tz=UTC)
        document = {
            "measured_at": now.isoformat(timespec="seconds"),
            "commit": machine.commit(),
            "machine": machine.description(),
            "sync_mode": "memory",  # rows on disk name their own
            **about_disk,
            "rounds": options.rounds,
            "seconds": round(time.perf_counter() - began, 1),
            "results": results.rows,
        }
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {file.relative_to(RESULTS.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
