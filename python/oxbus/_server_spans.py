# SPDX-License-Identifier: Apache-2.0
"""The spans of a server: a thread takes what the server did, and writes a span of OpenTelemetry for each."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind, StatusCode

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from oxbus.server import Server

_WAIT_SECONDS: Final = 0.5
"""How long the thread waits for something before it looks whether the server was closed."""
_MESSAGING: Final = {"send": "send", "receive": "receive", "settle": "settle"}
"""The operation type of each operation with messages; other operations are HTTP requests."""


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

    def _run(self) -> None:
        while True:
            is_last = self._server.closed
            self._write(self._server._take_spans(0 if is_last else _WAIT_SECONDS))
            if is_last:
                return

    def _write(self, taken: list[tuple[str, str, list[str], int, str | None, int, int]]) -> None:
        now = time.time_ns()
        for operation, target, contexts, messages, error, age, took in taken:
            parents = [propagate.extract({"traceparent": context}) for context in contexts]
            # One message, or one request: the span belongs to its trace. Several: it links to theirs.
            is_child = len(parents) == 1
            spans = [trace.get_current_span(parent).get_span_context() for parent in parents]
            span = self._tracer.start_span(
                f"{operation} {target}",
                context=parents[0] if is_child else propagate.extract({}),
                kind=SpanKind.SERVER,
                attributes=_attributes(operation, target, messages, error),
                links=[] if is_child else [Link(context) for context in spans if context.is_valid],
                start_time=now - age,
            )
            if error is not None:
                span.set_status(StatusCode.ERROR)
            span.end(now - age + took)


def _attributes(operation: str, target: str, messages: int, error: str | None) -> dict[str, Any]:
    if operation in _MESSAGING:
        attributes: dict[str, Any] = {
            "messaging.system": "servicebus",
            "messaging.operation.name": operation,
            "messaging.operation.type": _MESSAGING[operation],
            "messaging.destination.name": target,
            "messaging.batch.message_count": messages,
        }
    else:
        attributes = {"http.request.method": operation, "url.path": target}
    if error is not None:
        attributes["error.type"] = error
    return attributes
