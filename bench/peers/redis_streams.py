# SPDX-License-Identifier: Apache-2.0
"""Redis Streams: a consumer group over an append-only file.

Server settings: `appendonly yes`, `appendfsync always` at the level `fsync` and `everysec` at `os`, no snapshots;
in memory `appendonly no`.
Client settings: the package redis with the parser of hiredis, RESP2, one connection per thread over loopback TCP.
A receive is `XREADGROUP`, whose claim is part of the file; an acknowledgement is `XACK` and `XDEL` in one round trip.
A hundred messages are one pipeline without `MULTI`, and one `XACK` and one `XDEL` with all ids.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import redis

from peers import programs
from peers.contract import BenchQueue, Delivery, Level, PerThread
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STREAM = "bench"
GROUP = "receivers"
TIMEOUT_SECONDS = 60
_names = itertools.count()


class RedisStreams(BenchQueue):
    """A stream with one consumer group."""

    name = "Redis Streams"
    levels = (Level.FSYNC, Level.OS, Level.MEMORY)

    def __init__(self, directory: Path, level: Level) -> None:
        program = programs.redis_server()
        self.version = program.version
        port = free_port()
        settings = {
            "bind": LOOPBACK,
            "port": str(port),
            "dir": str(directory),
            "save": "",
            "appendonly": "no" if level is Level.MEMORY else "yes",
            "appendfsync": "always" if level is Level.FSYNC else "everysec",
        }
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._server = Server(program, arguments, directory, port)
        self._clients = PerThread(self._connect, _close)
        client = self._clients.get()[0]
        while client.info("persistence")["loading"]:
            pass
        if not client.exists(STREAM):
            client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def _connect(self) -> tuple[Any, str]:
        client = redis.Redis(
            host=LOOPBACK,
            port=self._server.port,
            protocol=2,
            single_connection_client=True,
            socket_timeout=TIMEOUT_SECONDS,
        )
        return client, f"receiver-{next(_names)}"

    def attach(self) -> None:
        """Connect the thread."""
        self._clients.get()[0].ping()

    def send(self, body: bytes) -> None:
        """Add an entry."""
        self._clients.get()[0].xadd(STREAM, {b"b": body})

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Add entries in one pipeline."""
        pipeline = self._clients.get()[0].pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(STREAM, {b"b": body})
        pipeline.execute()

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Read entries that the group has not read."""
        client, name = self._clients.get()
        block = max(1, int(wait_seconds * 1000)) if wait_seconds > 0 else None
        found = client.xreadgroup(GROUP, name, {STREAM: ">"}, count=max_count, block=block)
        return [(entry, fields[b"b"]) for entry, fields in found[0][1]] if found else []

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge and delete the entries."""
        pipeline = self._clients.get()[0].pipeline(transaction=False)
        pipeline.xack(STREAM, GROUP, *tokens)
        pipeline.xdel(STREAM, *tokens)
        pipeline.execute()

    def server_pid(self) -> int:
        """The server's."""
        return self._server.pid

    def close(self) -> None:
        """Close the connections and stop the server."""
        self._clients.close()
        self._server.stop()


def _close(connection: tuple[Any, str]) -> None:
    connection[0].close()
