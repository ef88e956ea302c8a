# SPDX-License-Identifier: Apache-2.0
"""Queues in the memory of the process: a hand-written one, and two that show how fast a queue can be at best.

- `queue.SimpleQueue` hands out references and knows no acknowledgement, so an acknowledgement does nothing.
- PeekLock in Python is `peeklock.py`: it keeps references and never copies a body.
- The ceiling is `ceiling/ceiling.c`: it copies bodies in and out under one mutex, and cannot wait.
"""

from __future__ import annotations

import platform
import queue
import time
from typing import TYPE_CHECKING, Any

import ceiling
from bodies import read_bytes, read_taken, read_tuple

from peers.contract import BenchQueue, Delivery, Level, UnavailableError
from peers.peeklock import Message, PeekLockQueue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class _InProcess(BenchQueue):
    levels = (Level.MEMORY,)
    version = f"Python {platform.python_version()}"

    def attach(self) -> None:
        """Do nothing: all threads share it."""

    def close(self) -> None:
        """Do nothing: it goes with its last reference."""


class SimpleQueue(_InProcess):
    """The floor of the standard library."""

    name = "queue.SimpleQueue"

    def __init__(self, directory: Path, level: Level) -> None:  # noqa: ARG002 -- it needs neither
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send(self, body: bytes) -> None:
        """Put."""
        self._queue.put(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put each."""
        for body in bodies:
            self._queue.put(body)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Get; wait only for the first."""
        taken: list[Delivery] = []
        try:
            get = self._queue.get
            taken.append((None, get(wait_seconds > 0, wait_seconds or None)))
            while len(taken) < max_count:
                taken.append((None, get(block=False)))
        except queue.Empty:
            pass
        return taken

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Do nothing: it knows no acknowledgement."""

    def send_all(self, bodies: Sequence[bytes], size: int) -> None:  # noqa: ARG002 -- it has no lists
        """Put each."""
        put = self._queue.put
        for body in bodies:
            put(body)

    def drain(
        self,
        count: int,
        size: int,  # noqa: ARG002
        wait_seconds: float,
        body_bytes: int,
        keep: list[bytes] | None = None,
    ) -> int:
        """Get and read each."""
        get = self._queue.get
        for _ in range(count):
            body = read_bytes(get(timeout=wait_seconds), body_bytes)
            if keep is not None:
                keep.append(body)
        return count


class PeekLock(_InProcess):
    """A queue written by hand."""

    name = "PeekLock in Python"

    def __init__(self, directory: Path, level: Level) -> None:  # noqa: ARG002 -- it needs neither
        self._queue = PeekLockQueue()

    def send(self, body: bytes) -> None:
        """Send."""
        self._queue.send(Message(body))

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Send under one hold of the mutex."""
        self._queue.send_many([Message(body) for body in bodies])

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Lock."""
        return [(token, message.body) for token, message in self._queue.receive(max_count, wait_seconds)]

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Complete."""
        if len(tokens) == 1:
            self._queue.complete(tokens[0])
        else:
            self._queue.complete_many(tokens)

    def send_all(self, bodies: Sequence[bytes], size: int) -> None:
        """Send everything."""
        if size == 1:
            send = self._queue.send
            for body in bodies:
                send(Message(body))
        else:
            super().send_all(bodies, size)

    def drain(
        self, count: int, size: int, wait_seconds: float, body_bytes: int, keep: list[bytes] | None = None
    ) -> int:
        """Lock, read and complete."""
        receive, complete, complete_many = self._queue.receive, self._queue.complete, self._queue.complete_many
        done = 0
        while done < count and (taken := receive(size, wait_seconds)):
            for one in taken:
                body = read_taken(one, body_bytes)
                if keep is not None:
                    keep.append(body)
            if size == 1:
                complete(taken[0][0])
            else:
                complete_many([token for token, _ in taken])
            done += len(taken)
        return done


class Ceiling(_InProcess):
    """The least work a compiled broker can do behind CPython's API."""

    name = "ceiling (C)"
    can_wait = False

    def __init__(self, directory: Path, level: Level) -> None:  # noqa: ARG002 -- it needs neither
        compiled = ceiling.load()
        if compiled is None:
            raise UnavailableError("no C compiler here, or no headers of Python")
        self._queue = compiled.Queue()

    def send(self, body: bytes) -> None:
        """Copy in."""
        self._queue.send(body)

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Copy a list in."""
        self._queue.send_many(bodies)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Lock and copy out; a received message is also its token."""
        messages = self._queue.receive(max_count)
        if not messages and wait_seconds > 0:
            time.sleep(0)  # it cannot wait, so another thread gets its turn
        return [(message, message[2]) for message in messages]

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Free."""
        if len(tokens) == 1:
            self._queue.complete(tokens[0])
        else:
            self._queue.complete_many(tokens)

    def send_all(self, bodies: Sequence[bytes], size: int) -> None:
        """Copy everything in."""
        if size == 1:
            send = self._queue.send
            for body in bodies:
                send(body)
        else:
            super().send_all(bodies, size)

    def drain(
        self,
        count: int,
        size: int,
        wait_seconds: float,  # noqa: ARG002
        body_bytes: int,
        keep: list[bytes] | None = None,
    ) -> int:
        """Lock, copy out, read, free."""
        receive, complete, complete_many = self._queue.receive, self._queue.complete, self._queue.complete_many
        done = 0
        while done < count and (messages := receive(size)):
            for message in messages:
                body = read_tuple(message, body_bytes)
                if keep is not None:
                    keep.append(body)
            if size == 1:
                complete(messages[0])
            else:
                complete_many(messages)
            done += len(messages)
        return done
