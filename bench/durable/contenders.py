# SPDX-License-Identifier: Apache-2.0
"""Which durable queues take part, and what each must show before it is timed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import bodies_of
from peers.contract import Level, UnavailableError
from peers.nats_jetstream import NatsJetStream
from peers.oxbus_queue import OxbusQueue
from peers.persist_queue import PersistQueue
from peers.redis_streams import RedisStreams
from peers.sqlite_wal import SqliteQueue

from durable.workload import check

if TYPE_CHECKING:
    from peers.contract import BenchQueue

QUEUES: tuple[type[BenchQueue], ...] = (OxbusQueue, SqliteQueue, PersistQueue, RedisStreams, NatsJetStream)

PATIENCE_SECONDS = 20
"""How long a message may take to come on a slow disk."""


@dataclass(frozen=True)
class Contender:
    """A queue at a level."""

    queue: type[BenchQueue]
    level: Level

    def __str__(self) -> str:
        return f"{self.queue.name}, {self.level}"

    @property
    def ours(self) -> bool:
        """Whether it is this project's."""
        return self.queue is OxbusQueue

    def open(self, directory: Path) -> BenchQueue:
        """Open it."""
        return self.queue(directory, self.level)


@dataclass
class LineUp:
    """Who runs, in which version, and who cannot and why."""

    ready: list[Contender]
    versions: dict[str, str]
    unavailable: dict[str, str]


def line_up(directory: Path, only: str = "") -> LineUp:
    """Rehearse every contender whose name contains `only`."""
    found = LineUp([], {}, {})
    for queue in QUEUES:
        for contender in (Contender(queue, level) for level in queue.levels):
            if only.lower() not in str(contender).lower():
                continue
            try:
                found.versions[queue.name] = rehearse(contender, directory)
                found.ready.append(contender)
            except UnavailableError as error:
                found.unavailable[str(contender)] = str(error)
                print(f"not available here: {contender}: {error}", flush=True)
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
