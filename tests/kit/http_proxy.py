# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy that connects one client at a time, and records what it was asked for."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Listens on loopback; answers CONNECT, and passes on requests with a whole URL."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = False
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client, contextlib.suppress(OSError):
                if self._closing:
                    return
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1 << 16)
        self.heads.append(head.decode())
        method, target, _ = head.decode().split(" ", 2)
        place = urlsplit(f"//{target}" if method == "CONNECT" else target)
        with socket.create_connection((place.hostname, place.port)) as server:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                server.sendall(head.replace(f"{place.scheme}://{place.netloc}".encode(), b"", 1))
            pairs = {client: server, server: client}
            while True:
                for ready in select.select(list(pairs), [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    pairs[ready].sendall(data)
