# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a broker that records the performatives in each direction."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
HEADER_BYTES = 8
TO_BROKER, TO_CLIENT = ">", "<"
DISPOSITION, DETACH, CLOSE = 0x15, 0x16, 0x18

Performative = tuple[str, int]
"""A direction, and the code of a performative."""


class Relay:
    """Listens on `port` for connections to another port."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[list[Performative]] = []
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> list[list[Performative]]:
        """Close the relay, and return the performatives of each connection, in order."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()
        return self._connections

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((LOOPBACK, self._broker_port))
                self._sockets += [client, broker]
                seen: list[Performative] = []
                self._connections.append(seen)
                for source, target, way in ((client, broker, TO_BROKER), (broker, client, TO_CLIENT)):
                    thread = threading.Thread(target=_pass_on, args=(source, target, way, seen))
                    self._threads.append(thread)
                    thread.start()


def _pass_on(source: socket.socket, target: socket.socket, way: str, seen: list[Performative]) -> None:
    unread = bytearray()
    with contextlib.suppress(OSError):  # the other side closed
        while some := source.recv(1 << 16):
            unread += some
            seen += [(way, code) for code in _performatives(unread)]
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)


def _performatives(unread: bytearray) -> Iterator[int]:
    """Remove whole frames from the start, and yield their performatives."""
    while len(unread) >= HEADER_BYTES:
        is_header = unread.startswith(b"AMQP")
        size = HEADER_BYTES if is_header else int.from_bytes(unread[:4], "big")
        if len(unread) < size:
            return
        body = bytes(unread[4 * unread[4] : size])
        if not is_header and body[:2] == b"\x00\x53":
            yield body[2]
        del unread[:size]
