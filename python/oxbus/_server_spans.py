# SPDX-License-Identifier: Apache-2.0
"""The spans of a server: a thread takes what the server did, and writes a span of OpenTelemetry for each."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from oxbus.server import Server

_Exchange = tuple["str | None", str, int]
"""Route, scheme and status of an HTTP request."""
_Taken = tuple[str, str, list[str], int, "str | None", int, int, "_Exchange | None"]
"""What `Server._take_spans` returns for each call."""

_WAIT_SECONDS: Final = 0.5
"""How long the thread waits for something before it looks whether the server was closed."""
_UNKNOWN_METHOD: Final = "_OTHER"
_CONTEXTS: Final = TraceContextTextMapPropagator()
"""Reads contexts of clients, whatever the program chose for its own calls: messages have them in this form."""

_log = logging.getLogger("oxbus.server")


class ServerSpans:
    """Writes the spans of a server until the server is closed.

    Args:
        server: The server.
        tracer: What makes the spans.
    """

    def __init__(self, server: Server, tracer: Tracer) -> None:
        self._server = server
        self._tracer = tracer
        # The first call switches the records on, before a client can connect.
        self._write(server._take_spans(0))
        self._thread = threading.Thread(target=self._run, name="oxbus-server-spans", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the spans of a closed server are written."""
        self._thread.join()
        # Calls may end while the server closes, after the thread has ended.
        self._write(self._server._take_spans(0))

    def _run(self) -> None:
        while True:
            is_last = self._server.closed
            self._write(self._server._take_spans(0 if is_last else _WAIT_SECONDS))
            if is_last:
                return

    def _write(self, taken: list[_Taken]) -> None:
        now = time.time_ns()
        failed, last = 0, None
        for one in taken:
            try:
                self._write_one(now, one)
            except Exception as error:  # noqa: BLE001 -- a sampler or processor of the program; later spans go on
                failed, last = failed + 1, error
        if failed:
            _log.warning(
                "%d spans were not written, because OpenTelemetry failed; check its samplers and processors: %r",
                failed,
                last,
            )

    def _write_one(self, now: int, taken: _Taken) -> None:
        operation, target, contexts, messages, error, age, took, exchange = taken
        parents = [_CONTEXTS.extract({"traceparent": context}, Context()) for context in contexts]
        # One message, or one request: the span belongs to its trace. Several: it links to theirs.
        is_child = len(parents) == 1 and messages <= 1
        linked = [] if is_child else [trace.get_current_span(parent).get_span_context() for parent in parents]
        if exchange is None:
            name, attributes = f"{operation} {target}", _attributes_of_messages(operation, target, messages)
        else:
            name, attributes = (
                _name_of_request(operation, exchange),
                _attributes_of_request(operation, target, exchange),
            )
        if error is not None:
            attributes["error.type"] = error
        span = self._tracer.start_span(
            name,
            context=parents[0] if is_child else Context(),
            kind=SpanKind.SERVER,
            attributes=attributes,
            links=[Link(context) for context in linked if context.is_valid],
            start_time=now - age,
        )
        if error is not None:
            span.set_status(StatusCode.ERROR)
        span.end(now - age + took)


def _attributes_of_messages(operation: str, target: str, messages: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": "servicebus",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": target,
    }
    if messages != 1:
        attributes["messaging.batch.message_count"] = messages
    return attributes


def _name_of_request(method: str, exchange: _Exchange) -> str:
    """Return the method and the route. A path, which anybody can invent, would make each name another one."""
    shown = "HTTP" if method == _UNKNOWN_METHOD else method
    route, _, _ = exchange
    return shown if route is None else f"{shown} {route}"


def _attributes_of_request(method: str, path: str, exchange: _Exchange) -> dict[str, Any]:
    route, scheme, status = exchange
    attributes: dict[str, Any] = {
        "http.request.method": method,
        "http.response.status_code": status,
        "url.path": path,
        "url.scheme": scheme,
    }
    if route is not None:
        attributes["http.route"] = route
    return attributes
