# SPDX-License-Identifier: Apache-2.0
"""Servers of work queues, each as a child of the bench with one empty queue in memory, on a free port of loopback.

- oxbus: `oxbus serve --memory` with default settings, one queue without partitions.
- beanstalkd: with default settings, so without a log; a job is put, reserved and deleted.
- Redis: a stream with a consumer group (`XADD`, `XREADGROUP`, `XACK` and `XDEL`), the reliable queue that its makers
  recommend, as a message belongs to its reader until it is acknowledged; nothing is written.
- echo: sends back what it reads; the least that round trips can cost.
"""

from __future__ import annotations

import os
import shutil
import socket
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import redis
from amqp import compiled
from amqp.brokers import Oxbus
from peers import programs
from peers.contract import Level, UnavailableError
from peers.fetching import CACHE, fetch
from peers.server import LOOPBACK, Server, free_port
from targets import BEANSTALKD, ECHO, ECHO_ASKED, OURS, REDIS

if TYPE_CHECKING:
    import go_client

STREAM = "bench"
ECHO_SOURCE = Path(__file__).with_name("echo.c")


class NetworkQueue(ABC):
    """A running server."""

    name: ClassVar[str]
    version: str
    pid: int
    options: go_client.Options
    """The options with which the client reaches the server."""

    @abstractmethod
    def __init__(self, directory: Path) -> None:
        """Start it; raise `UnavailableError` if it cannot run here."""

    @abstractmethod
    def remaining(self) -> int:
        """How many messages it has, held ones included."""

    @abstractmethod
    def close(self) -> None:
        """Stop it."""


class OxbusQueue(NetworkQueue):
    """`oxbus serve`."""

    name = OURS

    def __init__(self, directory: Path) -> None:
        self._broker = Oxbus(directory, Level.MEMORY)
        self.version, self.pid = self._broker.version, self._broker.pid
        self.options = {"mode": "oxbus", **compiled.options_for(self._broker.endpoint)}

    def remaining(self) -> int:
        """The count that the SDK reports."""
        return self._broker.remaining()

    def close(self) -> None:
        """Have it end in order."""
        self._broker.close()


class _Peer(NetworkQueue):
    """A program that gets its address as an argument."""

    mode: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        program, port = self._program(), free_port()
        self.version = program.version
        self._server = Server(program, self._arguments(port), directory, port)
        self.pid, self._port = self._server.pid, port
        self.options = {"mode": self.mode, "address": f"{LOOPBACK}:{port}"}

    @abstractmethod
    def _program(self) -> programs.Program:
        """The command to run."""

    @abstractmethod
    def _arguments(self, port: int) -> list[str]:
        """The arguments that name its address."""

    def close(self) -> None:
        """Stop it."""
        self._server.stop()


class Beanstalkd(_Peer):
    """The work queue."""

    name = BEANSTALKD
    mode = "beanstalkd"

    def _program(self) -> programs.Program:
        return programs.beanstalkd()

    def _arguments(self, port: int) -> list[str]:
        return ["-l", LOOPBACK, "-p", str(port)]

    def remaining(self) -> int:
        """Jobs in any state."""
        with socket.create_connection((LOOPBACK, self._port)) as connection, connection.makefile("rb") as answer:
            connection.sendall(b"stats\r\nquit\r\n")
            statistics = dict(line.decode("ascii").split(": ") for line in answer if b": " in line)
        return sum(int(statistics[f"current-jobs-{state}"]) for state in ("ready", "reserved", "delayed", "buried"))


class Redis(_Peer):
    """A stream with a consumer group."""

    name = REDIS
    mode = "redis"

    def _program(self) -> programs.Program:
        return programs.redis_server()

    def _arguments(self, port: int) -> list[str]:
        return ["--bind", LOOPBACK, "--port", str(port), "--save", "", "--appendonly", "no"]

    def remaining(self) -> int:
        """Entries that were not deleted."""
        with redis.Redis(host=LOOPBACK, port=self._port) as client:
            return int(client.xlen(STREAM))


class Echo(_Peer):
    """The round trips of AMQP: one to send, one to settle; the broker delivers without a request."""

    name = ECHO
    mode = "echo"
    trips: ClassVar[int] = 2

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.options["trips"] = self.trips

    def _program(self) -> programs.Program:
        return _echo()

    def _arguments(self, port: int) -> list[str]:
        return [str(port)]

    def remaining(self) -> int:
        """Nothing stays."""
        return 0


class EchoAsked(Echo):
    """The round trips of protocols whose receivers request each message: one more."""

    name = ECHO_ASKED
    trips = 3


@cache
def _echo() -> programs.Program:
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnavailableError("no C compiler")
    CACHE.mkdir(parents=True, exist_ok=True)
    built = CACHE / "echo"
    own = built.with_name(f"echo-{os.getpid()}")  # another process may be running the last one
    fetch([compiler, "-O2", "-Wall", "-Werror", str(ECHO_SOURCE), "-o", str(own)], CACHE)
    return programs.Program(own.replace(built), dict(os.environ), "of this project")


QUEUES: tuple[type[NetworkQueue], ...] = (OxbusQueue, Beanstalkd, Redis, Echo, EchoAsked)
