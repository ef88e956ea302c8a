# SPDX-License-Identifier: Apache-2.0
"""The peers that take part, and what each must show before it is timed.

Each peer's module is imported only here, so that one that is missing is a line and not an error.
"""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import bodies_of
from cases.case import WrongAnswerError
from durable.workload import check
from targets import OURS

from peers.contract import BenchQueue, Level, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from plan import Plan

OXBUS = ("oxbus_queue", "OxbusQueue")
DURABLE = (
    OXBUS,
    ("sqlite_wal", "SqliteQueue"),
    ("persist_queue", "PersistQueue"),
    ("redis_streams", "RedisStreams"),
    ("nats_jetstream", "NatsJetStream"),
)
EVERYONE = (
    OXBUS,
    ("in_process", "Ceiling"),
    ("in_process", "SimpleQueue"),
    ("in_process", "PeekLock"),
    ("lmdb_queue", "LmdbQueue"),
    ("sqlite_wal", "SqliteQueue"),
    ("persist_queue", "PersistQueue"),
    ("lite_queue", "LiteQueuePeer"),
    ("local_queue", "LocalQueuePeer"),
    ("honker_queue", "HonkerQueue"),
    ("redis_streams", "RedisStreams"),
    ("rabbit_mq", "RabbitMq"),
    ("nats_jetstream", "NatsJetStream"),
    ("kafka_share", "KafkaShareGroup"),
)
WEAKEST_FIRST = (Level.MEMORY, Level.OS, Level.FSYNC)
PATIENCE_SECONDS = 20
"""How long a message may take to come on a slow disk."""


@dataclass(frozen=True)
class Contender:
    """A queue at a level."""

    queue: type[BenchQueue]
    level: Level

    def __str__(self) -> str:
        return f"{self.queue.name}, {self.level}"

    def open(self, directory: Path) -> BenchQueue:
        """Open it."""
        return self.queue(directory, self.level)


@dataclass
class LineUp:
    """The contenders that run, their versions, and those that cannot run with the reason."""

    ready: list[Contender]
    versions: dict[str, str]
    unavailable: dict[str, str]


def load(module: str, name: str) -> type[BenchQueue]:
    """A contender's class."""
    queue: type[BenchQueue] = getattr(importlib.import_module(f"peers.{module}"), name)
    return queue


def weakest(queue: type[BenchQueue]) -> Level:
    """The level at which it promises least, which is where it is quickest."""
    return next(level for level in WEAKEST_FIRST if level in queue.levels)


def line_up(
    peers: Iterable[tuple[str, str]], levels: Callable[[type[BenchQueue]], Iterable[Level]], directory: Path, plan: Plan
) -> LineUp:
    """Rehearse the peers that the plan wants, each at its levels."""
    found = LineUp([], {}, {})
    for module, name in peers:
        try:
            queue = load(module, name)
        except ImportError as error:
            if plan.wants_contender(module):
                found.unavailable[module] = f"{error}; `make bench SUITE=peers` installs the packages"
            continue
        if not plan.wants_contender(queue.name):
            continue
        wanted = [Contender(queue, level) for level in levels(queue)]
        if not wanted:
            found.unavailable[queue.name] = "it has no level that survives power loss"
        for contender in wanted:
            try:
                found.versions[queue.name] = rehearse(contender, directory)
                found.ready.append(contender)
            except Exception as error:  # a peer of another version may fail in any way, and is left out
                if queue.name == OURS:
                    raise
                known = isinstance(error, UnavailableError | WrongAnswerError)
                found.unavailable[str(contender)] = str(error) if known else f"{type(error).__name__}: {error}"
    for name, reason in found.unavailable.items():
        print(f"not available here: {name}: {reason}", flush=True)
    return found


def rehearse(contender: Contender, directory: Path) -> str:
    """Let it keep messages over a close and an open, acknowledge some before and the rest after; return its version.

    Raises:
        UnavailableError: It cannot run here.
        WrongAnswerError: It lost messages, or brought back acknowledged ones.
    """
    bodies = bodies_of(100, 60)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        queue = contender.open(Path(folder))
        try:
            queue.send_many(bodies[:40])
            for body in bodies[40:]:
                queue.send(body)
            taken = queue.receive(20, PATIENCE_SECONDS)
            queue.acknowledge([token for token, _ in taken])
            if contender.level is not Level.MEMORY:
                queue.close()
                queue = contender.open(Path(folder))
            while len(taken) < len(bodies) and (deliveries := queue.receive(20, PATIENCE_SECONDS)):
                queue.acknowledge([token for token, _ in deliveries])
                taken += deliveries
            check(queue, bodies, [body for _, body in taken])
            return queue.version
        finally:
            queue.close()
