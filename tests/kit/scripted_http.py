# SPDX-License-Identifier: Apache-2.0
"""A server that answers each request with the next part of a script, and records the requests."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

ATOM = "http://www.w3.org/2005/Atom"
SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"

CLOSE = b""
"""An answer: the server closes the connection without one."""

SILENCE = b"(silence)"
"""An answer: the server sends nothing until it is closed."""


@dataclass(frozen=True)
class Request:
    """A recorded request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


def answer(status: int, body: str | bytes = b"", **headers: str) -> bytes:
    """A whole answer; an underscore in the name of a header is a dash."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def entry(title: str = "orders", description: str = "", element: str = "QueueDescription") -> str:
    """An Atom entry with a description."""
    return (
        f'<entry xmlns="{ATOM}"><title type="text">{title}</title><content type="application/xml">'
        f'<{element} xmlns="{SERVICE_BUS}">{description}</{element}></content></entry>'
    )


def feed(*entries: str, has_next: bool = False) -> str:
    """An Atom feed."""
    link = '<link rel="next" href="https://bus.example.net/next"/>' if has_next else ""
    return f'<feed xmlns="{ATOM}"><link rel="self" href="x"/>{link}{"".join(entries)}</feed>'


def error(status: int, detail: str, **headers: str) -> bytes:
    """An answer with an error of the service."""
    return answer(status, f"<Error><Code>{status}</Code><Detail>{detail}</Detail></Error>", **headers)


class ScriptedServer:
    """Answers on loopback, one connection at a time; the last answer of the script repeats."""

    def __init__(self, script: Iterable[bytes]) -> None:
        self._script = list(script)
        self._closing = threading.Event()
        self.requests: list[Request] = []
        self.received = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def connection_string(self) -> str:
        """A string that leads to the server."""
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName=name;SharedAccessKey=secret-key;"
            "UseDevelopmentEmulator=true"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; closing twice is harmless."""
        if self._closing.is_set():
            return
        self._closing.set()
        # Closing a listener does not wake a thread that accepts.
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        number = 0
        while not self._closing.is_set():
            connection, _ = self._listener.accept()
            # A client that does not read everything resets the connection.
            with connection, contextlib.suppress(ConnectionError):
                self._serve(connection, number)
            number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as stream:
            while not self._closing.is_set() and (request := _read(stream, number)) is not None:
                self.requests.append(request)
                self.received.set()
                reply = self._script.pop(0) if len(self._script) > 1 else self._script[0]
                if reply == SILENCE:
                    self._closing.wait()
                    return
                connection.sendall(reply)
                if b"Content-Length" not in reply or len(reply.partition(b"\r\n\r\n")[2]) != _length(reply):
                    return  # An incomplete answer, or none.


def _length(reply: bytes) -> int:
    return int(reply.partition(b"Content-Length:")[2].partition(b"\r\n")[0])


def _read(stream: object, number: int) -> Request | None:
    """Read a request; None at the end of the connection."""
    first = stream.readline()  # type: ignore[attr-defined] # a file of a socket
    if not first.strip():
        return None
    if not first.endswith(b" HTTP/1.1\r\n"):
        return Request("not HTTP", "", {}, b"", number)
    headers: dict[str, str] = {}
    while line := stream.readline().decode().strip():  # type: ignore[attr-defined]
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))  # type: ignore[attr-defined]
    method, target, _ = first.decode().split()
    return Request(method, target, headers, body, number)
