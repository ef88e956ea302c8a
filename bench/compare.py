# SPDX-License-Identifier: Apache-2.0
"""Runs oxbus and every peer side by side: in memory, and surviving power loss.

    python bench/compare.py                     both tables
    python bench/compare.py --level fsync       one of them: memory, fsync
    python bench/compare.py --only redis        one peer beside ours and the ceiling
    python bench/compare.py --rounds 5          more rounds

Servers that are not installed are fetched into bench/.cache, started on free loopback ports and stopped by their pid.
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
from durable import disk
from durable.measure import SCRATCH
from durable.sizes import sizes_for
from peers.contract import Level
from record import OF_CEILING, RATE, Record, ratio, shares_of_ceiling
from side_by_side import weight
from side_by_side.line_up import line_up
from side_by_side.measure import IN_MEMORY, SYNCED, Figures, one_round
from targets import DURABLE_TARGETS, OURS, PEER_TARGETS

if TYPE_CHECKING:
    from durable.contenders import Contender

SECONDS = {Level.MEMORY: 0.4, Level.FSYNC: 0.6}
MOST = {Level.MEMORY: 10_000, Level.FSYNC: 20_000}
WAKE_UPS = 300

Rounds = dict[tuple[str, str], list[Figures]]


def label(contender: Contender, table: Level) -> str:
    """The name of a contender in a table; its level is told where it is not the table's."""
    return contender.queue.name if contender.level is table else str(contender)


def run_table(level: Level, rounds: int, only: str, record: Record) -> dict[str, object]:
    """Measure everyone at a level, in turns within each round."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        place = Path(folder)
        about = disk.figures(place)
        found = line_up(place, level, only)
        shapes = SYNCED if level is Level.FSYNC else IN_MEMORY
        rows: Rounds = {}
        ready = [(contender, sizes_for(contender, place, SECONDS[level], MOST[level])) for contender in found.ready]
        for number in range(rounds):
            for contender, sizes in ready if number % 2 == 0 else list(reversed(ready)):
                wake_ups = WAKE_UPS if level is Level.MEMORY and contender.queue.name != "ceiling (C)" else 0
                for bench_id, figures in one_round(contender, place, shapes, sizes, wake_ups).items():
                    rows.setdefault((bench_id, label(contender, level)), []).append(figures)
            print(f"round {number + 1} of {rounds} at the level {level} is done", flush=True)
    levels = {label(contender, level): contender.level.value for contender, _ in ready}
    _note(rows, levels, record)
    if level is Level.FSYNC:
        _judge_synced(rows, record, all_here=not only)
    if level is Level.MEMORY:
        _weigh([contender for contender, _ in ready], record)
    return {"disk": about, "versions": found.versions, "unavailable": found.unavailable}


def _note(rows: Rounds, levels: dict[str, str], record: Record) -> None:
    for bench_id in dict.fromkeys(bench_id for bench_id, _ in rows):
        here = {name: rounds for (its_id, name), rounds in rows.items() if its_id == bench_id}
        rates = {name: [one[RATE] for one in rounds if RATE in one] for name, rounds in here.items()}
        shares = shares_of_ceiling(rates) if all(rates.values()) else {}
        for name, rounds in here.items():
            figures = {figure: [one[figure] for one in rounds] for figure in rounds[0]}
            more = {OF_CEILING: shares[name]} if name in shares else {}
            record.add(bench_id, name, figures, sync_mode=levels[name], **more)
        for target in PEER_TARGETS:
            if target.bench_id == bench_id and OURS in rates and target.peer in rates:
                record.judge(target, ratio(rates[OURS], rates[target.peer]))


def _judge_synced(rows: Rounds, record: Record, *, all_here: bool) -> None:
    """What `make bench-durable` judges, here beside all peers."""
    for target in DURABLE_TARGETS:
        bench_id = target.bench_id.replace("durable", "fsync")
        here = {
            name: [one[target.figure] for one in rounds]
            for (its_id, name), rounds in rows.items()
            if its_id == bench_id and target.figure in rounds[0]
        }
        ours = here.pop(OURS, None)
        if ours is None or (target.peer and not (here and all_here)):
            record.not_judged(target, "not all peers took part")
        elif target.peer:
            record.judge(target, ratio(ours, [max(one) for one in zip(*here.values(), strict=True)]))
        else:
            record.judge(target, statistics.median(ours))


def _weigh(contenders: list[Contender], record: Record) -> None:
    for contender in contenders:
        size = weight.bytes_per_message(contender.queue.__name__)
        if size is not None:
            figures = {"bytes_per_message": [size]}
            record.add("memory/100B/memory", label(contender, Level.MEMORY), figures, sync_mode=contender.level.value)


def main() -> int:
    """Run what was asked for, print it, keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=("memory", "fsync"), action="append", help="one table; both by default")
    parser.add_argument("--only", default="", help="only peers whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-save", action="store_true", help="do not write a file into bench/results")
    options = parser.parse_args()

    record = Record()
    began = results_file.begin()
    about: dict[str, dict[str, object]] = {}
    for level in options.level or ("memory", "fsync"):
        about[level] = run_table(Level(level), options.rounds, options.only, record)
    print("\nTargets")
    print("\n".join(record.verdicts))
    for level, facts in about.items():
        unavailable = facts["unavailable"]
        assert isinstance(unavailable, dict)
        for name, reason in unavailable.items():
            print(f"not at the level {level}: {name}: {reason}")
    if not record.rows:
        return 1
    if not options.no_save:
        results_file.save("peers", began, options.rounds, record, about=about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
