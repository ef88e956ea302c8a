# SPDX-License-Identifier: Apache-2.0
"""The interface of every measured queue, so that one workload runs on all of them.

A queue is opened on a directory at a level and is empty at first.
`send` and `acknowledge` return when their effect is as durable as the level requires.
A message that was received is hidden from other receivers until it is acknowledged.
Any number of threads may use one queue at once; what needs a connection per thread makes it in `attach`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from bodies import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Delivery = tuple[Any, bytes]
"""The token to acknowledge with, and the body."""

LOCK_SECONDS = 60
"""How long a received message stays hidden; no bench takes as long."""

Connection = TypeVar("Connection")


class Level(StrEnum):
    """What an acknowledged message survives."""

    FSYNC = "fsync"
    """Power loss: it was synced to the disk."""
    OS = "os"
    """The end of the process: it was written, and is synced some time later."""
    MEMORY = "memory"
    """Nothing."""


class UnavailableError(Exception):
    """This queue cannot run here; the text names the reason."""


class BenchQueue(ABC):
    """A queue, ours or a peer's."""

    name: ClassVar[str]
    levels: ClassVar[tuple[Level, ...]] = (Level.FSYNC, Level.OS)
    version: str = "unknown"
    can_wait: ClassVar[bool] = True
    """Whether a receiver can wait without polling."""
    count_for_memory: ClassVar[int | None] = 1_000_000
    """How many messages wait in it while its memory is measured; None if they are on disk: not measured."""

    @abstractmethod
    def __init__(self, directory: Path, level: Level) -> None:
        """Open the queue in `directory`, with the messages it left there; raise `UnavailableError` if it cannot."""

    @abstractmethod
    def attach(self) -> None:
        """Make what the calling thread needs, so that its first call is as quick as the others."""

    @abstractmethod
    def send(self, body: bytes) -> None:
        """Put one message in."""

    @abstractmethod
    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Put messages in, as cheaply as the queue can."""

    @abstractmethod
    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Take up to `max_count` messages; wait at most about `wait_seconds` while there is none."""

    @abstractmethod
    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Remove received messages for good."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything but the files."""

    def attach_receiver(self) -> None:
        """Make what the calling thread needs to receive, so that its first call is as quick as the others."""
        self.attach()

    def detach(self) -> None:  # noqa: B027 -- most have nothing to do
        """Return to the queue what was fetched ahead for the calling thread, which will receive no more."""

    def server_pid(self) -> int | None:
        """The process that keeps the messages; None: this one."""
        return None

    def send_all(self, bodies: Sequence[bytes], size: int) -> None:
        """Send everything, `size` messages with each call."""
        if size == 1:
            for body in bodies:
                self.send(body)
        else:
            for start in range(0, len(bodies), size):
                self.send_many(bodies[start : start + size])

    def drain(
        self, count: int, size: int, wait_seconds: float, body_bytes: int, keep: list[bytes] | None = None
    ) -> int:
        """Receive, read and acknowledge `count` messages of `body_bytes` bytes, up to `size` at once.

        Returns:
            How many came; fewer if none came for `wait_seconds`. Their bodies are put into `keep`, too.
        """
        done = 0
        while done < count and (deliveries := self.receive(size, wait_seconds)):
            for _, body in deliveries:
                read_bytes(body, body_bytes)
                if keep is not None:
                    keep.append(body)
            self.acknowledge([token for token, _ in deliveries])
            done += len(deliveries)
        return done


class PerThread(Generic[Connection]):
    """One connection for each thread that asks, made when it asks first."""

    def __init__(self, make: Callable[[], Connection], close: Callable[[Connection], None]) -> None:
        self._make = make
        self._close = close
        self._local = threading.local()
        self._all: list[Connection] = []

    def get(self) -> Connection:
        """Return the connection of the calling thread."""
        try:
            return self._local.connection  # type: ignore[no-any-return]  # a local has no types
        except AttributeError:
            connection = self._local.connection = self._make()
            self._all.append(connection)
            return connection

    def drop(self) -> None:
        """Close the connection of the calling thread, if it has one."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            self._all.remove(connection)
            self._close(connection)

    def close(self) -> None:
        """Close all of them; their threads must be done."""
        while self._all:
            self._close(self._all.pop())
