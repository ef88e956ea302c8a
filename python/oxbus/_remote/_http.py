# SPDX-License-Identifier: Apache-2.0
"""One request over HTTP or HTTPS, with the standard library.

A request ends in an `HttpAnswer` or in one of three errors, which tell what the server may have done:
`NotSent` (nothing), `AnswerLost` (anything), `AnswerUnusable` (the server is not the expected one).
"""

from __future__ import annotations

import base64
import os
import selectors
import ssl
import time
from collections import deque
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Any, Final

from oxbus._remote._options import certificate_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._remote._address import HttpAddress

ANSWER_BYTES_MAX: Final = 16 << 20
"""Largest body of an answer: far more than a page of 100 entities."""

IDLE_SECONDS: Final = 20.0
"""An idle connection is used again for this long; servers and gateways close it some time later."""

_SUCCESSES: Final = range(200, 300)
_CHUNK: Final = 1 << 16
_HIDDEN: Final = frozenset({"username", "password"})


class RequestFailed(Exception):  # noqa: N818 (a base class; callers see errors of oxbus.exceptions)
    """A request had no usable answer; the text says what happened, and what to do."""


class NotSent(RequestFailed):
    """There was no connection, so the server did nothing."""


class AnswerLost(RequestFailed):
    """The connection broke before the answer was complete; the server may have done the work."""


class AnswerLate(AnswerLost):
    """The answer did not arrive in time."""


class AnswerUnusable(RequestFailed):
    """The answer is not HTTP, or too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An answer.

    Attributes:
        status: Its status.
        headers: Its headers, with names in lower case.
        body: Its body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends requests to one server and keeps connections open for the next ones. May be shared by threads.

    In a forked process it continues to work, with new connections.
    """

    def __init__(
        self,
        address: HttpAddress,
        *,
        connection_verify: str | os.PathLike[str] | None = None,
        http_proxy: Mapping[str, Any] | None = None,
        connection_timeout: float = 30,
        read_timeout: float = 60,
    ) -> None:
        """Create a client; nothing connects yet.

        Args:
            address: The server.
            connection_verify: A file with the certificates to trust, in PEM format. None: those of the system.
            http_proxy: ``proxy_hostname``, ``proxy_port``, and optionally ``username`` and ``password``.
            connection_timeout: Seconds to wait for a connection.
            read_timeout: Seconds to wait for an answer.

        Raises:
            OSError: The certificate file cannot be read.
            ValueError: An option is malformed.
        """
        if min(connection_timeout, read_timeout) <= 0:
            raise ValueError("connection_timeout and read_timeout must be more than 0 seconds")
        self._address = address
        self._context = _tls(connection_verify) if address.tls else None
        self._proxy = None if http_proxy is None else _Proxy(http_proxy)
        self._connection_timeout = connection_timeout
        self._read_timeout = read_timeout
        self._idle: deque[tuple[float, HTTPConnection]] = deque()
        self._process = os.getpid()

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        """Send one request and return the answer.

        Args:
            method: The method.
            target: Path and query, escaped.
            headers: The headers, without ``Host``.
            body: The body.

        Raises:
            RequestFailed: There is no usable answer.
        """
        connection = self._connected()
        try:
            answer = self._exchange(connection, method, target, headers, body)
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            self._idle.append((time.monotonic(), connection))
        return answer

    def close(self) -> None:
        """Close the idle connections. The client can still be used."""
        while self._idle:
            self._idle.pop()[1].close()

    def __del__(self) -> None:
        """Close the connections of a client that was dropped without being closed."""
        # An error in the constructor leaves no list of them.
        if hasattr(self, "_idle") and self._process == os.getpid():
            self.close()

    def _connected(self) -> HTTPConnection:
        """Return a connection that is open: an idle one, or a new one."""
        if self._process != os.getpid():
            # The sockets belong to the parent process.
            self._idle, self._process = deque(), os.getpid()
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                break  # Another thread was faster.
            if time.monotonic() - since < IDLE_SECONDS and not _is_closed(connection):
                return connection
            connection.close()
        connection = self._new_connection()
        try:
            connection.connect()
            connection.sock.settimeout(self._read_timeout)
        except ssl.SSLCertVerificationError as error:
            raise NotSent(
                f"the certificate of the server is not trusted: {error.verify_message}; "
                f"pass the certificate of its issuer as connection_verify: server=`{self._address.shown}`"
            ) from error
        except ssl.SSLError as error:
            raise NotSent(
                f"there is no TLS at this port ({error.reason or error}); check the port, or add "
                f"UseDevelopmentEmulator=true for a server without TLS: server=`{self._address.shown}`"
            ) from error
        except OSError as error:
            raise NotSent(
                f"cannot connect to the server ({error.strerror or error}); check its address, and whether it runs: "
                f"server=`{self._address.shown}`"
            ) from error
        return connection

    def _new_connection(self) -> HTTPConnection:
        address, proxy = self._address, self._proxy
        host, port = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)
        if self._context is None:
            return HTTPConnection(host, port, timeout=self._connection_timeout)
        connection = HTTPSConnection(host, port, timeout=self._connection_timeout, context=self._context)
        if proxy is not None:
            connection.set_tunnel(address.host, address.port, headers=proxy.headers)
        return connection

    def _exchange(
        self, connection: HTTPConnection, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpAnswer:
        deadline = time.monotonic() + self._read_timeout
        sent = {"Host": self._address.authority, **headers}
        if self._proxy is not None and self._context is None:
            target = f"{self._address.shown}{target}"
            sent |= self._proxy.headers
        try:
            connection.request(method, target, body=body, headers=sent)
            # Closed also after a whole body: it may be read to its end without the response knowing it.
            with connection.getresponse() as response:
                content = _body(response, deadline)
        except TimeoutError as error:
            raise AnswerLate(
                f"the server did not answer within {self._read_timeout:g} s; "
                f"check whether the call took effect, then repeat it: server=`{self._address.shown}`"
            ) from error
        except (IncompleteRead, OSError) as error:
            raise AnswerLost(
                "the connection broke before the answer was complete; "
                f"check whether the call took effect, then repeat it: server=`{self._address.shown}`"
            ) from error
        except HTTPException as error:
            raise AnswerUnusable(
                "the answer is not HTTP; check the port: administration needs the HTTPS port of the server, or with "
                f"UseDevelopmentEmulator=true its HTTP port, in the emulator 5300: server=`{self._address.shown}`"
            ) from error
        names = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            connection.close()
        return HttpAnswer(status=response.status, headers=names, body=content)


class _Proxy:
    """An HTTP proxy, with the keys of the SDK's option."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        unknown = set(given) - {"proxy_hostname", "proxy_port"} - _HIDDEN
        if unknown or not {"proxy_hostname", "proxy_port"} <= set(given):
            raise ValueError(
                "http_proxy must have proxy_hostname and proxy_port, and may have username and password: "
                f"http_proxy has {sorted(given)}"
            )
        self.host = str(given["proxy_hostname"])
        self.port = int(given["proxy_port"])
        self.headers: dict[str, str] = {}
        if (name := given.get("username")) is not None:
            pair = f"{name}:{given.get('password') or ''}".encode()
            self.headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair).decode()}"


def _tls(connection_verify: str | os.PathLike[str] | None) -> ssl.SSLContext:
    path = certificate_file(connection_verify)
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise ValueError(
            f"connection_verify must be the path of a file with certificates in PEM format: connection_verify=`{path}`"
        ) from error


def _is_closed(connection: HTTPConnection) -> bool:
    """Return whether the server closed an idle connection, or sent something without a request."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _body(response: HTTPResponse, deadline: float) -> bytes:
    """Read a body.

    Raises:
        AnswerUnusable: It is larger than the limit.
        IncompleteRead: It ends early, or a success does not say how long it is.
        TimeoutError: It does not end before the deadline.
    """
    length = response.length
    if length is None and not response.chunked and response.status in _SUCCESSES:
        # The standard library takes the end of a connection inside the headers for the end of the headers.
        raise IncompleteRead(b"")
    parts: list[bytes] = []
    size = 0
    while length is None or size < length:
        part = response.read1(_CHUNK if length is None else min(_CHUNK, length - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise AnswerUnusable(f"the answer is larger than {ANSWER_BYTES_MAX >> 20} MiB; check the server")
        if time.monotonic() > deadline:
            raise TimeoutError
    if length is not None and size < length:
        raise IncompleteRead(b"", length - size)
    return b"".join(parts)
