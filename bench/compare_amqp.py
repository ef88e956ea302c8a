# SPDX-License-Identifier: Apache-2.0
"""Runs `oxbus serve` and other brokers that speak AMQP 1.0 side by side, with the same clients.

    python bench/compare_amqp.py                      in memory, and surviving power loss
    python bench/compare_amqp.py --level memory       one of them: memory, fsync
    python bench/compare_amqp.py --only rabbit        one broker beside ours
    python bench/compare_amqp.py --rounds 5           more rounds

Brokers are fetched into bench/.cache, started on free loopback ports and stopped by their pid.
Who cannot run here is listed with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import results_file
import server_start
from amqp.brokers import BROKERS
from amqp.measure import Figures, one_round
from durable import disk
from durable.measure import SCRATCH
from peers.contract import Level, UnavailableError
from record import Record, ratio
from targets import AMQP_TARGETS, OURS

if TYPE_CHECKING:
    from targets import Target

STARTS = 20

Rounds = dict[tuple[str, str], list[Figures]]


def run_level(level: Level, rounds: int, only: str, record: Record) -> dict[str, object]:
    """Measure everyone at a level, in turns within each round."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    brokers = [kind for kind in BROKERS if kind.name == OURS or only.lower() in kind.name.lower()]
    found: Rounds = {}
    versions: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        place = Path(folder)
        about = disk.figures(place) if level is Level.FSYNC else {}
        for number in range(rounds):
            for kind in brokers if number % 2 == 0 else list(reversed(brokers)):
                if kind.name in unavailable:
                    continue
                try:
                    figures, versions[kind.name] = one_round(kind, level, place, extras=level is Level.MEMORY)
                except (UnavailableError, ImportError) as error:
                    unavailable[kind.name] = str(error)
                    print(f"not available here: {kind.name}: {error}", flush=True)
                    continue
                for bench_id, one in figures.items():
                    found.setdefault((bench_id, kind.name), []).append(one)
            print(f"round {number + 1} of {rounds} at the level {level} is done", flush=True)
    for (bench_id, name), rows in found.items():
        record.add(bench_id, name, {figure: [row[figure] for row in rows] for figure in rows[0]}, sync_mode=level.value)
    for target in AMQP_TARGETS:
        _judge(target, found, record)
    return {"disk": about, "versions": versions, "unavailable": unavailable}


def _judge(target: Target, found: Rounds, record: Record) -> None:
    here = {
        name: [row[target.figure] for row in rows]
        for (bench_id, name), rows in found.items()
        if bench_id == target.bench_id
    }
    ours = here.pop(OURS, None)
    if ours is None:
        return
    if target.peer is None:
        record.judge(target, statistics.median(ours))
    elif here:
        best = max if target.at_least else min
        record.judge(target, ratio(ours, [best(one) for one in zip(*here.values(), strict=True)]))
    else:
        record.not_judged(target, "no other broker took part")


def run_starts(record: Record) -> None:
    """How long `oxbus serve` takes to be ready, and to answer."""
    ready, answered = server_start.starts(STARTS)
    record.add("amqp_start/0B/serve", OURS, {"ready_ms": ready, "answered_ms": answered}, sync_mode="memory")
    found: Rounds = {("amqp_start/0B/serve", OURS): [{"ready_ms": one} for one in ready]}
    for target in AMQP_TARGETS:
        _judge(target, found, record)


def main() -> int:
    """Run what was asked for, print it, keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=("memory", "fsync"), action="append", help="one level; both by default")
    parser.add_argument("--only", default="", help="only brokers whose name contains this, beside ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-save", action="store_true", help="do not write a file into bench/results")
    options = parser.parse_args()

    record = Record()
    began = results_file.begin()
    levels = options.level or ("memory", "fsync")
    about = {level: run_level(Level(level), options.rounds, options.only, record) for level in levels}
    if "memory" in levels:
        run_starts(record)
    print("\nTargets")
    print("\n".join(record.verdicts))
    if not options.no_save:
        results_file.save("amqp", began, options.rounds, record, about=about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
