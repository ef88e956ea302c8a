# SPDX-License-Identifier: Apache-2.0
"""The package localqueue: its `SimpleQueue`, SQLite behind Rust.

Settings: `DurabilityMode.DURABLE` at the level `fsync`, `RELAXED` at `os`; leases of a minute; bodies go in as they are
(`_Plain`) instead of through JSON.
A hundred messages are one `put_many`; it has no batches for taking and acknowledging.
Its blocking `get` asks again after 10 ms and later, so it is asked without blocking each millisecond here.
Acknowledged rows are purged after each thousand.
"""

from __future__ import annotations

import threading
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any

from localqueue import Empty
from localqueue import SimpleQueue as LocalQueue
from localqueue.policies import DeliveryPolicy, DurabilityMode

from peers.contract import LOCK_SECONDS, BenchQueue, Delivery, Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAUSE_SECONDS = 0.001
PURGE_EVERY = 1000


class _Plain:
    """A serializer that does nothing: bodies are bytes already."""

    def dumps(self, value: bytes) -> bytes:
        return value

    def loads(self, value: bytes) -> bytes:
        return value


class LocalQueuePeer(BenchQueue):
    """localqueue."""

    name = "localqueue"
    can_wait = False
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:
        self.version = metadata.version("localqueue")
        self._queue: Any = LocalQueue(
            str(directory),
            delivery=DeliveryPolicy(lease_seconds=LOCK_SECONDS),
            durability=DurabilityMode.DURABLE if level is Level.FSYNC else DurabilityMode.RELAXED,
            serializer=_Plain(),
        )
        self._mutex = threading.Lock()
        self._acknowledged = 0

    def attach(self) -> None:
        """Do nothing: all threads share it."""

    def send(self, body: bytes) -> None:
        """Put."""
        self._queue.put(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put all in one transaction."""
        self._queue.put_many(list(bodies))

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Get each; wait only for the first."""
        until = time.monotonic() + wait_seconds
        taken: list[Delivery] = []
        while True:
            try:
                while len(taken) < max_count:
                    job = self._queue.get(block=False)
                    taken.append((job, job.data))
            except Empty:
                pass
            if taken or time.monotonic() >= until:
                return taken
            time.sleep(PAUSE_SECONDS)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge each."""
        for job in tokens:
            self._queue.ack(job)
        with self._mutex:
            self._acknowledged += len(tokens)
            purge = self._acknowledged >= PURGE_EVERY
            if purge:
                self._acknowledged = 0
        if purge:
            self._queue.purge(0)

    def close(self) -> None:
        """Close it."""
        self._queue.close()
