# SPDX-License-Identifier: Apache-2.0
"""The package honker: a job queue on SQLite behind Rust.

Settings: as it comes, which is WAL with `synchronous=NORMAL`; it offers no level that survives power loss.
Payloads are JSON, so bodies go in as Base64, a third longer.
A hundred messages are one transaction, one `claim_batch` and one `ack_batch`.
Its iterator that waits for messages is asynchronous, so `receive` polls each millisecond instead.
"""

from __future__ import annotations

import base64
import threading
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any

import honker

from peers.contract import LOCK_SECONDS, BenchQueue, Delivery, Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAUSE_SECONDS = 0.001
WORKER = "receiver"


class HonkerQueue(BenchQueue):
    """honker."""

    name = "honker"
    levels = (Level.OS,)
    can_wait = False
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:  # noqa: ARG002 -- there is only one
        self.version = metadata.version("honker")
        self._database: Any = honker.open(str(directory / "queue.db"))
        self._queue = self._database.queue("bench", visibility_timeout_s=LOCK_SECONDS)
        self._mutex = threading.Lock()

    def attach(self) -> None:
        """Do nothing: all threads share it."""

    def send(self, body: bytes) -> None:
        """Enqueue."""
        self._queue.enqueue(base64.b64encode(body).decode("ascii"))

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Enqueue all in one transaction."""
        with self._database.transaction() as transaction:
            for body in bodies:
                self._queue.enqueue(base64.b64encode(body).decode("ascii"), tx=transaction)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Claim a batch."""
        until = time.monotonic() + wait_seconds
        while True:
            jobs = self._queue.claim_batch(WORKER, max_count)
            if jobs or time.monotonic() >= until:
                return [(job.id, base64.b64decode(job.payload)) for job in jobs]
            time.sleep(PAUSE_SECONDS)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge in one transaction."""
        done = self._queue.ack_batch(list(tokens), WORKER)
        if done != len(tokens):
            raise RuntimeError(f"{done} of {len(tokens)} acknowledged")

    def close(self) -> None:
        """Close the database."""
        self._database.close()
