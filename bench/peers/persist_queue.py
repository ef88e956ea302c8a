# SPDX-License-Identifier: Apache-2.0
"""The package persist-queue: its `SQLiteAckQueue`.

Settings: `multithreading=True`, everything else by default: WAL, and SQLite's default `synchronous=FULL`, which is
checked here. The package offers no other level and no batches, so a hundred messages are a hundred calls.
Bodies go in as they are (`_Plain`) instead of through pickle.
Acknowledged rows stay in the table and every get scans past them, so each thousand is cleared as its manual requires.
"""

from __future__ import annotations

import threading
from importlib import metadata
from typing import TYPE_CHECKING, Any

from persistqueue import Empty, SQLiteAckQueue

from peers.contract import BenchQueue, Delivery, Level, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CLEAR_EVERY = 1000
FULL = 2


class _Plain:
    """A serializer that does nothing: bodies are bytes already."""

    @staticmethod
    def dumps(value: bytes) -> bytes:
        return value

    @staticmethod
    def loads(value: bytes) -> bytes:
        return value


class PersistQueue(BenchQueue):
    """persist-queue with acknowledgement."""

    name = "persist-queue"
    count_for_memory = None
    levels = (Level.FSYNC,)

    def __init__(self, directory: Path, level: Level) -> None:  # noqa: ARG002 -- there is only one
        self.version = metadata.version("persist-queue")
        self._queue = SQLiteAckQueue(str(directory), multithreading=True, serializer=_Plain)
        putter: Any = self._queue._putter  # noqa: SLF001 -- the setting has no public face
        (synchronous,) = putter.execute("PRAGMA synchronous").fetchone()
        if synchronous < FULL:
            raise UnavailableError(f"this SQLite does not sync by default: synchronous={synchronous}")
        self._acknowledged = 0
        self._mutex = threading.Lock()

    def attach(self) -> None:
        """Do nothing: all threads share its connections."""

    def send(self, body: bytes) -> None:
        """Put."""
        self._queue.put(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put each."""
        for body in bodies:
            self._queue.put(body)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Get each; wait only for the first."""
        taken: list[Delivery] = []
        try:
            while len(taken) < max_count:
                wait = 0.0 if taken else wait_seconds
                row = self._queue.get(block=wait > 0, timeout=wait, raw=True)
                taken.append((row["pqid"], row["data"]))
        except Empty:
            pass
        return taken

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge each by its row."""
        for token in tokens:
            self._queue.ack(id=token)
        with self._mutex:
            self._acknowledged += len(tokens)
            clear = self._acknowledged >= CLEAR_EVERY
            if clear:
                self._acknowledged = 0
        if clear:
            self._queue.clear_acked_data(max_delete=CLEAR_EVERY, keep_latest=0)

    def close(self) -> None:
        """Close its connections."""
        self._queue.close()
