# SPDX-License-Identifier: Apache-2.0
"""The package litequeue: a table of SQLite in WAL mode.

Settings: as it comes at the level `os` (`synchronous=NORMAL`); at `fsync` its connection is set to `synchronous=FULL`.
One connection and a mutex around it, as its calls are transactions of one connection.
A hundred messages are sent in one of its transactions; it takes and finishes them one by one.
Finished rows stay in the table until `prune`, which is called after each thousand. It cannot wait, so it is asked again
each millisecond.
"""

from __future__ import annotations

import threading
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any

from litequeue import LiteQueue

from peers.contract import BenchQueue, Delivery, Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PRUNE_EVERY = 1000
PAUSE_SECONDS = 0.001


class LiteQueuePeer(BenchQueue):
    """litequeue."""

    name = "litequeue"
    can_wait = False
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:
        self.version = metadata.version("litequeue")
        self._queue = LiteQueue(str(directory / "queue.db"))
        if level is Level.FSYNC:
            self._queue.conn.execute("PRAGMA synchronous = FULL")
        self._mutex = threading.Lock()
        self._done = 0

    def attach(self) -> None:
        """Do nothing: all threads share its connection."""

    def send(self, body: bytes) -> None:
        """Put."""
        with self._mutex:
            self._queue.put(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put each, in one transaction."""
        with self._mutex, self._queue.transaction():
            for body in bodies:
                self._queue.put(body)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Pop each, which locks it."""
        until = time.monotonic() + wait_seconds
        taken: list[Delivery] = []
        while True:
            with self._mutex:
                while len(taken) < max_count and (message := self._queue.pop()):
                    taken.append((message.message_id, message.data))
            if taken or time.monotonic() >= until:
                return taken
            time.sleep(PAUSE_SECONDS)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Finish them in one transaction."""
        with self._mutex:
            with self._queue.transaction():
                for token in tokens:
                    self._queue.done(token)
            self._done += len(tokens)
            if self._done >= PRUNE_EVERY:
                self._done = 0
                self._queue.prune()

    def close(self) -> None:
        """Close its connection."""
        self._queue.close()
