# SPDX-License-Identifier: Apache-2.0
"""Runs `oxbus serve` and other brokers that speak AMQP 1.0 side by side, with the same clients; then work queues.

    python bench/compare_amqp.py                      brokers in memory, surviving power loss, and work queues
    python bench/compare_amqp.py --level memory       brokers at one level: memory, fsync
    python bench/compare_amqp.py --network            work queues alone: beanstalkd, Redis, and nothing behind
    python bench/compare_amqp.py --only rabbit        one of them beside ours
    python bench/compare_amqp.py --rounds 5           more rounds

Servers are fetched into bench/.cache, started on free loopback ports and stopped by their pid.
Who cannot run here is listed with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import network.measure
import results_file
import server_start
from amqp.brokers import BROKERS
from amqp.measure import one_round
from durable import disk
from durable.measure import SCRATCH
from network.servers import QUEUES
from peers.contract import Level
from record import RATE, Record, judge_rates, ratio
from targets import AMQP_TARGETS, NETWORK_TARGETS, OURS, Target
from turns import Turns, in_turns

STARTS = 20


def run_level(level: Level, rounds: int, only: str, place: Path, record: Record) -> dict[str, object]:
    """Measure all brokers at a level."""
    about = disk.figures(place) if level is Level.FSYNC else {}
    print(f"brokers at the level {level}", flush=True)
    measure = partial(one_round, level=level, extras=level is Level.MEMORY)
    found = in_turns(BROKERS, only, rounds, place, measure)
    found.note(record, level.value)
    for target in AMQP_TARGETS:
        _judge(target, found, record)
    return {"disk": about, **found.about()}


def _judge(target: Target, found: Turns, record: Record) -> None:
    here = found.of(target.bench_id, target.figure)
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


def run_network(rounds: int, only: str, place: Path, record: Record) -> dict[str, object]:
    """Measure work queues with protocols of their own."""
    print("work queues in memory", flush=True)
    found = in_turns(QUEUES, only, rounds, place, network.measure.one_round)
    found.note(record, "memory")
    for target in NETWORK_TARGETS:
        if target.figure == RATE:
            judge_rates(target.bench_id, found.of(target.bench_id, RATE), [target], record)
        else:
            _judge(target, found, record)
    return found.about()


def run_starts(record: Record) -> None:
    """How long `oxbus serve` takes to be ready, and to answer."""
    ready, answered = server_start.starts(STARTS)
    record.add("amqp_start/0B/serve", OURS, {"ready_ms": ready, "answered_ms": answered}, sync_mode="memory")
    found = Turns({("amqp_start/0B/serve", OURS): [{"ready_ms": one} for one in ready]})
    for target in AMQP_TARGETS:
        _judge(target, found, record)


def main() -> int:
    """Run what was asked for, print it, keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=("memory", "fsync"), action="append", help="brokers at one level")
    parser.add_argument("--network", action="store_true", help="work queues, and brokers only at a level that is named")
    parser.add_argument("--only", default="", help="only servers whose name contains this, beside ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-save", action="store_true", help="do not write a file into bench/results")
    options = parser.parse_args()

    record = Record()
    began = results_file.begin()
    everything = not options.level and not options.network
    levels = ("memory", "fsync") if everything else options.level or ()
    about: dict[str, dict[str, object]] = {}
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        place = Path(folder)
        for level in levels:
            about[level] = run_level(Level(level), options.rounds, options.only, place, record)
        if "memory" in levels:
            run_starts(record)
        if everything or options.network:
            about["network"] = run_network(options.rounds, options.only, place, record)
    print("\nTargets")
    print("\n".join(record.verdicts))
    if not options.no_save:
        results_file.save("amqp", began, options.rounds, record, about=about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
