# SPDX-License-Identifier: Apache-2.0
"""What every durable queue of the bench offers, so that one workload runs on all of them.

A queue is opened on a directory at a level and is empty at first.
`send` and `acknowledge` return when what they did has reached the level.
A message that was received is hidden from other receivers until it is acknowledged.
Any number of threads may use one queue at once; what needs a connection per thread makes it in `attach`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

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
    """This queue cannot run here; the text says why."""


class DurableQueue(ABC):
    """A queue on disk."""

    name: ClassVar[str]
    levels: ClassVar[tuple[Level, ...]] = (Level.FSYNC, Level.OS)
    version: str = "unknown"

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

    def close(self) -> None:
        """Close all of them; their threads must be done."""
        while self._all:
            self._close(self._all.pop())
