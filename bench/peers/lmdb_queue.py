# SPDX-License-Identifier: Apache-2.0
"""A queue written by hand over LMDB: bodies, a table of ready messages, a table of locks.

Settings: one environment, one mutex around its single writer, `map_size` of 8 GiB, no readers' table.
At the level `fsync` each commit is synced, claims too: a commit that is written but not synced could leave the file
in pieces after a loss of power. At `os` nothing is synced (`sync=False`).
A hundred messages are one transaction. Opening ends all locks: their holders are gone.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import lmdb

from peers.contract import LOCK_SECONDS, BenchQueue, Delivery, Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAP_BYTES = 8 << 30
KEY_BYTES = 8


class LmdbQueue(BenchQueue):
    """LMDB, by hand."""

    name = "LMDB, by hand"
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:
        self.version = ".".join(str(part) for part in lmdb.version())
        synced = level is Level.FSYNC
        self._filled = threading.Condition()
        self._environment = lmdb.open(
            str(directory / "lmdb"), map_size=MAP_BYTES, max_dbs=3, sync=synced, metasync=synced, lock=False
        )
        self._bodies, self._ready, self._locked = (
            self._environment.open_db(name) for name in (b"bodies", b"ready", b"locked")
        )
        with self._write() as transaction:
            for key, _ in transaction.cursor(self._locked):
                transaction.put(key, b"", db=self._ready)
            transaction.drop(self._locked, delete=False)
            cursor = transaction.cursor(self._bodies)
            self._next = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0

    def _write(self) -> Any:
        return self._environment.begin(write=True)

    def attach(self) -> None:
        """Do nothing: all threads share the environment."""

    def send(self, body: bytes) -> None:
        """Put one in a transaction."""
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put all in one transaction."""
        with self._filled:
            first = self._next
            keys = [number.to_bytes(KEY_BYTES, "big") for number in range(first, first + len(bodies))]
            with self._write() as transaction:
                transaction.cursor(self._bodies).putmulti(zip(keys, bodies, strict=True), append=True)
                transaction.cursor(self._ready).putmulti([(key, b"") for key in keys])
            self._next += len(bodies)
            self._filled.notify(len(bodies))

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Move the oldest from the ready ones to the locked ones."""
        until = time.monotonic() + wait_seconds
        with self._filled:
            while True:
                taken = self._claim(max_count)
                left = until - time.monotonic()
                if taken or left <= 0:
                    return taken
                self._filled.wait(left)

    def _claim(self, max_count: int) -> list[Delivery]:
        with self._environment.begin(db=self._ready) as look:
            if look.stat(self._ready)["entries"] == 0:
                return []
        deadline = int((time.time() + LOCK_SECONDS) * 1000).to_bytes(8, "big")
        with self._write() as transaction:
            cursor = transaction.cursor(self._ready)
            keys: list[bytes] = []
            found = cursor.first()
            while found and len(keys) < max_count:
                keys.append(bytes(cursor.key()))
                found = cursor.delete()
            transaction.cursor(self._locked).putmulti([(key, deadline) for key in keys])
            return [(key, bytes(transaction.get(key, db=self._bodies))) for key in keys]

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Delete locks and bodies in one transaction."""
        with self._filled, self._write() as transaction:
            for key in tokens:
                if not transaction.delete(key, db=self._locked):
                    raise KeyError(f"not locked: {key!r}")
                transaction.delete(key, db=self._bodies)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()
