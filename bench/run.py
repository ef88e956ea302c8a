# SPDX-License-Identifier: Apache-2.0
"""Runs oxbus beside its yardsticks and prints how they compare.

    python bench/run.py                   everything that lives in memory
    python bench/run.py --case hash       one group: hash, queue, session, …, or sweep_threads, latency, memory, units
    python bench/run.py --case batch_100  every case whose id has this word
    python bench/run.py --rounds 9        more rounds
    python bench/run.py --case paths      rows through Spark by each path; only when asked for, as is spark_copy, …
    python bench/run.py --case durable    queues on disk; only when asked for, and with a file of its own

The contenders of one case take turns within each round, so a busy machine slows all of them.
Figures are medians over the rounds; ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

import backlog
import memory
import results_file
import targets
import units
from cases import arrow, bulk, hashing, queueing, schedule, sessions, spark_paths, stages, sweeps, threads, topics
from cases.case import Case, seconds_of_one_round
from record import OF_CEILING, RATE, Record, judge_rates, ratio, shares_of_ceiling
from targets import CEILING, OURS, TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
SWEEPS: dict[str, Callable[[], list[Case]]] = {
    "sweep_threads": sweeps.threads,
    "sweep_batch": sweeps.batches,
    "sweep_body": sweeps.body_sizes,
}
OTHERS = ("spark", "latency", "paced", "memory", "backlog", "units")
ONLY_WHEN_ASKED = ("paths", "durable")
FEW_ROUNDS = 3
"""For what takes long and is done in processes of its own."""


def run_cases(cases: Iterable[Case], rounds: int, record: Record, *, in_turn: bool = False) -> None:
    """Measure the cases, contenders of the same id in turn; with `in_turn` all of them."""
    by_id: dict[str, list[Case]] = {}
    for case in cases:
        by_id.setdefault(case.id, []).append(case)
    groups = [[case for same in by_id.values() for case in same]] if in_turn else list(by_id.values())
    for contenders in filter(None, groups):
        rates = _rates(contenders, rounds)
        for bench_id in dict.fromkeys(case.id for case in contenders):
            _note(by_id[bench_id], {case.contender: rates[str(case)] for case in by_id[bench_id]}, record)
        if in_turn:
            _judge_threads(rates, record)


def _rates(cases: Sequence[Case], rounds: int) -> dict[str, list[float]]:
    for case in cases:
        seconds_of_one_round(case)  # warm up
    rates: dict[str, list[float]] = {str(case): [] for case in cases}
    for number in range(rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            rates[str(case)].append(case.operations / seconds_of_one_round(case))
    return rates


def _note(cases: Sequence[Case], rates: dict[str, list[float]], record: Record) -> None:
    shares = shares_of_ceiling(rates)
    for case in cases:
        more = {OF_CEILING: shares[case.contender]} if case.contender in shares else {}
        point = {"sweep": case.point.axis, "at": case.point.at, "line": case.point.line} if case.point else {}
        record.add(case.id, case.contender, {RATE: rates[case.contender]}, **more, **point)
    judge_rates(cases[0].id, rates, TARGETS, record)


def _judge_threads(rates: dict[str, list[float]], record: Record) -> None:
    """Two threads against one, and more threads than cores against two."""

    def found(contender: str, line: str, at: int) -> list[float] | None:
        return rates.get(f"sweep_threads/1KiB/{line}_{at} by {contender}")

    columns = f"arrow_{sweeps.ROWS}"
    one, two = found(targets.ARROW, columns, 1), found(targets.ARROW, columns, 2)
    if one and two:
        record.judge(targets.TWO_THREADS_TARGET, ratio(two, one))
    for contender, line in ((OURS, "single"), (OURS, "batch_100"), (targets.ARROW, columns)):
        two = found(contender, line, 2)
        for at in (4, 8):
            if two and (more := found(contender, line, at)):
                text = f"{at} threads / two, 1 KiB, {line}"
                target = Target(bench_id=f"sweep_threads/1KiB/{line}_{at}", text=text, wanted=MORE_THREADS)
                record.judge(target, ratio(more, two))


MORE_THREADS = targets.MORE_THREADS_WANTED


def run_spark(rounds: int, record: Record) -> None:
    """Compare the hash with Spark's on one core."""
    from peers import spark_hash  # noqa: PLC0415 -- starts a Java machine

    ours = next(case for case in hashing.cases() if case.contender == OURS)
    rates: dict[str, list[float]] = {OURS: [], targets.SPARK: []}
    for seconds in spark_hash.seconds_per_round(rounds):
        rates[targets.SPARK].append(hashing.KEYS * spark_hash.COPIES / seconds)
        rates[OURS].append(ours.operations / seconds_of_one_round(ours))
    record.add(ours.id, targets.SPARK, {RATE: rates[targets.SPARK]})
    judge_rates(ours.id, rates, [target for target in TARGETS if target.peer == targets.SPARK], record)


def run_latency(record: Record) -> None:
    """Compare wake-ups, and show how the calls of a cycle are spread."""
    import latency  # noqa: PLC0415

    p50s: dict[str, list[float]] = {}
    p99s: dict[str, list[float]] = {}
    for contender, rounds in latency.wake_ups(FEW_ROUNDS).items():
        p50s[contender] = [latency.percentile(samples, 50) for samples in rounds]
        p99s[contender] = [latency.percentile(samples, 99) for samples in rounds]
        pooled = latency.distribution([sample for samples in rounds for sample in samples])
        figures = {"latency_us_p50": p50s[contender], "latency_us_p99": p99s[contender]}
        record.add(targets.WAKE_UP, contender, figures, distribution=pooled)
    for target, found in zip(targets.LATENCY_TARGETS, (p50s, p99s), strict=True):
        record.judge(target, ratio(found[OURS], found[targets.PEEKLOCK]))
    for call, samples in latency.plain_calls().items():
        figures = {
            "latency_us_p50": [latency.percentile(samples, 50)],
            "latency_us_p99": [latency.percentile(samples, 99)],
        }
        record.add(f"call/100B/{call}", OURS, figures, distribution=latency.distribution(samples))


def run_paced(record: Record) -> None:
    """One message per second, to a plain and to a partitioned queue."""
    import latency  # noqa: PLC0415

    found = latency.paced()
    p50s = {name: latency.percentile(samples, 50) for name, samples in found.items()}
    for name, samples in found.items():
        figures = {"latency_us_p50": [p50s[name]], "latency_us_max": [max(samples)]}
        record.add(targets.PACE, name, figures, distribution=latency.distribution(samples))
    record.judge(targets.PACE_TARGET, p50s[latency.PARTITIONED] / p50s[latency.PLAIN])


def run_memory(record: Record) -> None:
    """Resident bytes per message at a million messages."""
    sizes: dict[str, float] = {}
    for contender in memory.CONTENDERS:
        sizes[contender] = memory.bytes_per_message(contender)
    for contender, size in sizes.items():
        shares = {OF_CEILING: round(size / sizes[CEILING], 4)} if CEILING in sizes else {}
        record.add(targets.MEMORY, contender, {"bytes_per_message": [size]}, **shares)
    for target in targets.MEMORY_TARGETS:
        record.judge(target, sizes[target.contender or OURS])
    on_disk = memory.bytes_per_message(memory.ON_DISK)
    record.add(targets.DISK_MEMORY_TARGET.bench_id, OURS, {"bytes_per_message": [on_disk]}, sync_mode="os")
    record.judge(targets.DISK_MEMORY_TARGET, on_disk)


def run_backlog(rounds: int, record: Record) -> None:
    """Rates with up to ten million messages waiting against ten thousand."""
    sizes = backlog.backlogs_that_fit()
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for number in range(rounds):
        for size in sizes if number % 2 == 0 else reversed(sizes):
            found.setdefault((OURS, size), []).append(backlog.rates(OURS, size))
            if number == 0 and size <= backlog.PEERS_BACKLOG_MAX:
                for peer in (targets.PEEKLOCK, *((CEILING,) if sweeps.compiled() else ())):
                    found.setdefault((peer, size), []).append(backlog.rates(peer, size))
    for (contender, size), rows in found.items():
        for operation in rows[0]:
            bench_id = f"{operation.replace(' ', '_')}/100B/backlog_{size}"
            point = {"sweep": "backlog", "at": size, "line": operation}
            record.add(bench_id, contender, {RATE: [row[operation] for row in rows]}, **point)
    small = found[OURS, sizes[0]]
    for size in sizes[2:]:
        large = found[OURS, size]
        worst = min(
            ratio([row[operation] for row in large], [row[operation] for row in small]) for operation in small[0]
        )
        text = f"backlog of {size:,} / of {sizes[0]:,}, the worst of {len(small[0])} rates"
        target = Target(bench_id=f"backlog_{size}", text=text, wanted=targets.BACKLOG_WANTED)
        record.judge(target, worst)


def run_paths(word: str, rounds: int, record: Record) -> None:
    """Rows through Spark by each path, and what a batch of one row costs."""
    run_cases(chosen(word, "paths", spark_paths.cases), rounds, record)
    if word not in {"paths", targets.SPARK_BATCH, "spark_batch"}:
        return
    from cases import spark_batches  # noqa: PLC0415 -- it uses the session of the others

    found = spark_batches.batch_ms(rounds)
    for contender, values in found.items():
        record.add(targets.SPARK_BATCH, contender, {"batch_ms": values})
    added = [ours - theirs for ours, theirs in zip(found[OURS], found[spark_paths.NOTHING], strict=True)]
    record.judge(targets.SPARK_BATCH_TARGET, statistics.median(added))


def run_units(record: Record) -> None:
    """Memory and time of one queue and of one session, as their number grows."""
    for kind, counts in units.COUNTS.items():
        for count in counts:
            figures = {name: [value] for name, value in units.measure(kind, count).items()}
            record.add(f"{kind}/100B/{count}", OURS, figures, sweep=kind, at=count, line="per unit")


def chosen(word: str, group: str, cases: Callable[[], list[Case]]) -> list[Case]:
    """The cases of a group that a word asks for: all, if it names the group."""
    return [case for case in cases() if not word or word == group or word in case.id]


def run(word: str, rounds: int, record: Record) -> None:
    """Run what the word asks for; an empty one asks for all."""
    named = {*GROUPS, *SWEEPS, *OTHERS, *ONLY_WHEN_ASKED}
    for group, cases in GROUPS.items():
        if word not in named or word == group:
            run_cases(chosen(word, group, cases), rounds, record)
    for group, cases in SWEEPS.items():
        if word not in named or word == group:
            run_cases(chosen(word, group, cases), rounds, record, in_turn=True)
    others: dict[str, Callable[[], None]] = {
        "spark": lambda: run_spark(rounds, record),
        "latency": lambda: run_latency(record),
        "paced": lambda: run_paced(record),
        "memory": lambda: run_memory(record),
        "backlog": lambda: run_backlog(min(rounds, FEW_ROUNDS), record),
        "units": lambda: run_units(record),
    }
    for name, measure in others.items():
        if word in {"", name}:
            measure()
    if word == "paths" or word.startswith("spark_"):
        run_paths(word, rounds, record)


def main() -> int:
    """Run what was asked for, print it, keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", help="a group, or a part of the ids; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-save", action="store_true", help="do not write a file into bench/results")
    durable = parser.add_argument_group("with --case durable")
    durable.add_argument("--contender", default="", help="only those whose name and level contain this: redis, fsync")
    durable.add_argument("--messages", type=int, help="how many one by one; by the hundred five times as many")
    options = parser.parse_args()

    record = Record()
    began = results_file.begin()
    more: dict[str, object] = {}
    for word in options.case or [""]:
        started = time.perf_counter()
        if word == "durable":
            from durable.judge import run_durable  # noqa: PLC0415 -- needs the packages of the peers

            more = run_durable(options.rounds, options.contender, options.messages, record)
        else:
            run(word, options.rounds, record)
        print(f"took {time.perf_counter() - started:.0f} s")

    print("\nTargets")
    print("\n".join(record.verdicts))
    if not record.rows:
        print(f"nothing is called {' or '.join(options.case or [])}; bench/README.md names the cases")
        return 1
    if not options.no_save:
        kind = "durable" if "durable" in (options.case or []) else "memory"
        results_file.save(kind, began, options.rounds, record, **more)
    return 0


if __name__ == "__main__":
    sys.exit(main())
