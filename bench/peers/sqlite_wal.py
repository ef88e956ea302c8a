# SPDX-License-Identifier: Apache-2.0
"""A queue written by hand over SQLite in WAL mode: a table, a claim, a delete.

Settings: two connections, one mutex around both, since SQLite has one writer at a time and a mutex is quicker than its
busy handler. Sends and acknowledgements commit with `synchronous=FULL`: the log is synced before they return.
Claims commit with `synchronous=NORMAL`: they are written but not synced, because a claim that power loss undoes only
gives its message back. At the level `os` all commits are `NORMAL`. Automatic checkpoints stay on.
A hundred messages are one transaction: an `executemany`, one claiming `UPDATE … RETURNING`, an `executemany`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

from peers.contract import LOCK_SECONDS, BenchQueue, Delivery, Level

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TABLE = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    locked_until REAL NOT NULL DEFAULT 0,
    claims INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
)
"""
_CLAIM = """
UPDATE messages SET locked_until = ?, claims = claims + 1
WHERE id IN (SELECT id FROM messages WHERE locked_until < ? ORDER BY id LIMIT ?)
RETURNING id, claims, body
"""
_INSERT = "INSERT INTO messages (body) VALUES (?)"
_DELETE = "DELETE FROM messages WHERE id = ? AND claims = ?"


class SqliteQueue(BenchQueue):
    """SQLite in WAL mode, by hand."""

    name = "SQLite WAL, by hand"
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:
        self.version = sqlite3.sqlite_version
        self._filled = threading.Condition()
        file = directory / "queue.db"
        self._writer = _connect(file, "FULL" if level is Level.FSYNC else "NORMAL")
        self._claimer = _connect(file, "NORMAL")
        self._writer.execute(_TABLE)
        # Opening ends all claims: their holders are gone.
        self._writer.execute("UPDATE messages SET locked_until = 0 WHERE locked_until > 0")

    def attach(self) -> None:
        """Do nothing: all threads share its connections."""

    def send(self, body: bytes) -> None:
        """Insert a row."""
        with self._filled:
            self._writer.execute(_INSERT, (body,))
            self._filled.notify()

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Insert the rows in one transaction."""
        with self._filled:
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.executemany(_INSERT, [(body,) for body in bodies])
            self._writer.execute("COMMIT")
            self._filled.notify_all()

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Claim the oldest unclaimed rows."""
        until = time.monotonic() + wait_seconds
        with self._filled:
            while True:
                now = time.time()
                rows = self._claimer.execute(_CLAIM, (now + LOCK_SECONDS, now, max_count)).fetchall()
                left = until - time.monotonic()
                if rows or left <= 0:
                    return [((number, claims), body) for number, claims, body in rows]
                self._filled.wait(left)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Delete the rows in one transaction."""
        with self._filled:
            if len(tokens) == 1:
                self._writer.execute(_DELETE, tokens[0])
                return
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.executemany(_DELETE, tokens)
            self._writer.execute("COMMIT")

    def close(self) -> None:
        """Close both connections."""
        self._claimer.close()
        self._writer.close()


def _connect(file: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection
