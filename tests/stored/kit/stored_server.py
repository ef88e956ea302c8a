# SPDX-License-Identifier: Apache-2.0
"""Servers of a namespace in a store, each in its own process, and one address that leads to the one that serves."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from oxbus import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIVENESS_SECONDS = 60
"""How long to wait before something counts as stuck; not a measure of speed."""

LOOPBACK = "127.0.0.1"
KEY = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"


@dataclass(frozen=True)
class StoredPlace:
    """A place in a store.

    Attributes:
        url: Its URL.
        options: The options of the store.
        environment: Variables that a process needs to reach it.
    """

    url: str
    options: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def fresh(self) -> StoredPlace:
        """Return an empty place in the same store."""
        return replace(self, url=f"{self.url}-{uuid.uuid4().hex[:12]}")

    def open(self, *, standby: bool = False, memory_limit_bytes: int | None = None) -> Namespace:
        """Open the namespace, or create it with four partitions."""
        return Namespace(
            self.url, partitions=4, storage_options=self.options, standby=standby, memory_limit_bytes=memory_limit_bytes
        )


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class StoredServer:
    """`oxbus serve` of a place, in its own process; a context manager that kills it."""

    def __init__(self, place: StoredPlace, *words: str, standby: bool, port: int | None = None) -> None:
        self.port = port or free_port()
        options = [word for name, value in place.options.items() for word in ("--storage-option", f"{name}={value}")]
        run = ["serve", "--data", place.url, *options, "--amqp-port", str(self.port), "--json", *words]
        # A file: nobody reads a pipe before the server ends.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the server)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "oxbus.cli", *run, *(["--standby"] if standby else [])],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **place.environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def errors(self) -> str:
        """What the server wrote to its standard error."""
        # The server writes at the position of the same file, which a read would move.
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def kill(self) -> None:
        """Kill the server, if it runs."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def wait_until_serving(self) -> None:
        """Wait until the server prints its address."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.errors)
        assert json.loads(line)["amqp_port"] == self.port


class Switch:
    """A TCP proxy: passes each connection on to the first of some ports that accepts one."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connection_string(self) -> str:
        """The connection string of whatever serves."""
        return f"Endpoint=sb://{LOOPBACK}:{self.port}/;{KEY}"

    def lead_to(self, ports: list[int]) -> None:
        """End all connections, and pass new ones on to these ports."""
        self._ports = ports
        sockets, self._sockets = self._sockets, []
        _end(sockets)

    def close(self) -> None:
        """End all connections, and accept no more."""
        _end([self._listener, *self._sockets])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        for server in self._reached():
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()
            return
        client.close()

    def _reached(self) -> Iterator[socket.socket]:
        for port in self._ports:
            with contextlib.suppress(OSError):
                yield socket.create_connection((LOOPBACK, port), timeout=1)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side closed
        source.settimeout(None)
        while content := source.recv(1 << 16):
            target.sendall(content)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _end(sockets: list[socket.socket]) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LIVENESS_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.02)
