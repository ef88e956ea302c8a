# SPDX-License-Identifier: Apache-2.0
"""A process that is killed at any moment loses nothing that it acknowledged, and nothing that it settled returns.

`OXBUS_KILL_CYCLES` is the number of kills, `OXBUS_KILL_SECONDS` the time after which each test stops killing, and
`OXBUS_KILL_SEED` repeats the choices of a run (not its timing).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

import pytest
from kill_audit import LIVENESS_SECONDS, WORKER, audit, records
from kill_history import Record, check
from kill_messages import QUEUES, view
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CYCLES = int(os.environ.get("OXBUS_KILL_CYCLES", "12"))
SECONDS = float(os.environ.get("OXBUS_KILL_SECONDS", "inf"))
SEED = os.environ.get("OXBUS_KILL_SEED") or str(random.SystemRandom().randrange(10**9))
LONGEST_START_SECONDS = 1.0
LONGEST_WORK_SECONDS = 0.8
KILLS_PER_NAMESPACE = 20
"""Number of kills after which a new namespace begins, to limit the length of a history."""

SMALL_MEMORY_BYTES = 4 << 20
"""With this limit most bodies stay on disk."""

SHOWN = 20
"""Number of violations that a failure shows."""

pytestmark = pytest.mark.timeout(300 + 60 * CYCLES)


class Victim:
    """One process that works on the namespace until it is killed."""

    def __init__(
        self, path: Path | str, log: Path, seed: str, level: str, memory_limit_bytes: int | None = None
    ) -> None:
        self.errors = log.with_suffix(".errors")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), str(path), str(log), seed, level, str(memory_limit_bytes or "")],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wait_until_it_works(self, in_background: Callable[..., Any]) -> None:
        """Wait until its threads work, or fail with its error output."""
        assert self.process.stdout is not None
        line = in_background(self.process.stdout.readline).result(LIVENESS_SECONDS)
        assert line == "working\n", self.errors.read_text()

    def kill(self) -> None:
        """Kill the process; fail if it has already ended."""
        ended = self.process.poll()
        self.process.kill()
        self.process.communicate(timeout=LIVENESS_SECONDS)
        assert ended is None, f"ended early with {ended}:\n{self.errors.read_text()}"


def drain(namespace: Namespace) -> list[Record]:
    """Receive everything with one receiver for each queue, in order within each partition, and complete it."""
    found: list[Record] = []
    with ServiceBusClient(namespace) as client:
        for queue in QUEUES:
            numbers: list[int] = []
            with client.get_queue_receiver(queue) as receiver:
                while messages := receiver.receive_messages(max_message_count=100, max_wait_time=1):
                    name = f"drain-{queue}-{len(found)}"
                    views = [view(each) for each in messages]
                    numbers += [each["number"] for each in views]
                    receiver.complete_messages(messages)
                    uids = [each["uid"] for each in views]
                    found += [
                        {"do": "try", "id": name, "queue": queue, "verb": "receive", "uids": [], "limit": 100},
                        {"do": "ack", "id": name, "queue": queue, "messages": views},
                        {"do": "try", "id": f"{name}-end", "queue": queue, "verb": "complete", "uids": uids},
                        {"do": "ack", "id": f"{name}-end", "queue": queue, "messages": []},
                    ]
            by_partition = groupby(sorted(numbers, key=lambda number: number >> 48), key=lambda number: number >> 48)
            for partition, own in by_partition:
                in_turn = list(own)
                assert in_turn == sorted(in_turn), f"partition {partition} of {queue} was delivered out of order"
    return found


def judge(history: list[Record], file: Path, seed: str) -> None:
    """Fail with the seed and the file of the history if it has violations."""
    violations = [
        f"{queue}: {violation}"
        for queue in QUEUES
        for violation in check(record for record in history if record.get("queue", queue) == queue)
    ]
    if violations:
        file.write_text("".join(json.dumps(record) + "\n" for record in history))
        shown = "\n".join(violations[:SHOWN])
        pytest.fail(f"{len(violations)} broken promises, seed {seed}, history in {file}:\n{shown}", pytrace=False)


def until_time_is_over(cycles: int) -> Iterator[int]:
    """Count the cycles to run: the first two always, the others while there is time."""
    end = time.monotonic() + SECONDS
    for cycle in range(cycles):
        if cycle > 1 and time.monotonic() > end:
            sys.stdout.write(f"{cycle} of {cycles} cycles, seed {SEED}: the {SECONDS:.0f} s are over\n")
            return
        yield cycle
    sys.stdout.write(f"{cycles} cycles, seed {SEED}\n")


def run_and_kill(
    directory: Path,
    place: str,
    seed: str,
    options: tuple[str, int | None],
    cycles: Iterator[int],
    in_background: Callable[..., Any],
) -> list[Record]:
    """Let one process after the other work and kill each; return their records and the audits in between."""
    chance = random.Random(seed)
    level, memory_limit_bytes = options
    history: list[Record] = []
    for count, cycle in enumerate(cycles):
        log = directory / f"run{cycle}.log"
        victim = Victim(place, log, f"{seed} {cycle}", level, memory_limit_bytes)
        # The first process must create the queues; some of the others are killed while they open.
        if count == 0 or chance.random() < 0.8:
            victim.wait_until_it_works(in_background)
            time.sleep(chance.uniform(0, LONGEST_WORK_SECONDS))
        else:
            time.sleep(chance.uniform(0, LONGEST_START_SECONDS))
        victim.kill()
        history += [*records(log), {"do": "end"}]
        if chance.random() < 0.5:
            with Namespace(place, durability=level) as namespace:
                history += audit(namespace)
    return history


@pytest.mark.parametrize(
    ("level", "memory_limit_bytes", "scheme"),
    [
        ("fsync", None, ""),
        ("os", None, ""),
        ("os", SMALL_MEMORY_BYTES, ""),
        ("fsync", None, "objects://"),
        ("fsync", SMALL_MEMORY_BYTES, "objects://"),
    ],
    ids=["fsync", "os", "os, bodies on disk", "objects", "objects, bodies there"],
)
def test_killed_process_keeps_its_promises(
    tmp_path: Path, in_background: Callable[..., Any], level: str, memory_limit_bytes: int | None, scheme: str
) -> None:
    """Over many kills: no loss, no settled message again, order, counts, numbers, contents (B-103 to B-180)."""
    cycles = until_time_is_over(max(2, CYCLES // 5))
    options = level, memory_limit_bytes
    for first in cycles:
        seed = f"{SEED} {level} {memory_limit_bytes} {scheme} {first}"
        directory = tmp_path / f"from-{first}"
        directory.mkdir()
        place = f"{scheme}{directory}/bus"
        here = chain([first], islice(cycles, KILLS_PER_NAMESPACE - 1))
        history = run_and_kill(directory, place, seed, options, here, in_background)
        assert any(record["do"] == "ack" and record["messages"] for record in history), "no run received anything"
        with Namespace(place, durability=level) as namespace:
            history += [*audit(namespace), *drain(namespace), *audit(namespace), {"do": "end"}]
        with Namespace(place, durability=level) as namespace:
            left = audit(namespace)
        judge(history + left, directory / "history.jsonl", seed)
        assert all(each["deferred"] for record in left for each in record["messages"])
        shutil.rmtree(directory)


def test_process_killed_while_it_makes_the_namespace(tmp_path: Path, in_background: Callable[..., Any]) -> None:
    """A kill at any moment of the first open leaves a directory that the next open accepts (docs/format.md)."""
    chance = random.Random(SEED)
    for cycle in until_time_is_over(max(3, CYCLES // 3)):
        path = tmp_path / f"bus{cycle}"
        for attempt in range(2):
            victim = Victim(path, tmp_path / f"new{cycle}.{attempt}.log", SEED, "fsync")
            time.sleep(chance.uniform(0, LONGEST_START_SECONDS))
            victim.kill()
        last = Victim(path, tmp_path / f"last{cycle}.log", SEED, "fsync")
        last.wait_until_it_works(in_background)
        last.kill()
        with Namespace(str(path)) as namespace:
            assert {entry.status for entry in namespace.partition_health()} == {"healthy"}, f"seed {SEED}"
            names = {queue.name for queue in ServiceBusAdministrationClient(namespace).list_queues()}
            assert names == set(QUEUES), f"seed {SEED}"
