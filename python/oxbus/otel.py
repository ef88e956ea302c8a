# SPDX-License-Identifier: Apache-2.0
"""Traces with OpenTelemetry: spans for sends, receives, settlements and processing.

    pip install 'oxbus[otel]'

    from oxbus import otel

    otel.instrument()

From then on each call of a sender or a receiver is a span, in threads and in asyncio. Messages carry their context in
the application properties `traceparent`, `tracestate` and `Diagnostic-Id`, as those of the Azure SDK do, so a trace
goes on across both. Without `instrument()`, nothing is added to any call. docs/traces.md has the spans and their
attributes.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind

import oxbus
import oxbus.aio
from oxbus import ServiceBusMessage, ServiceBusMessageBatch
from oxbus._server_spans import ServerSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from oxbus.server import Server

__all__ = ["ServerSpans", "context_of", "instrument", "process", "trace_server", "uninstrument"]

_SENDS = {"send_messages": "send", "schedule_messages": "schedule"}
_RECEIVES = ("receive_messages", "receive_deferred_messages", "next", "__next__", "__anext__")
_SETTLEMENTS = ("complete", "abandon", "defer", "dead_letter")
_LINKS_MAX = 128
"""Links of a span, after the default limit of OpenTelemetry's SDKs."""

_replaced: list[tuple[type, str, Any]] = []


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Make every sender and receiver of this process write spans. A second call changes nothing.

    Args:
        tracer_provider: Where spans go; None: the global one of OpenTelemetry.

    Raises nothing.

    Source: docs/traces.md.
    """
    if _replaced:
        return
    tracer = trace.get_tracer("oxbus", oxbus.__version__, tracer_provider)
    _replace(ServiceBusMessageBatch, "add_message", functools.partial(_traced_add, tracer))
    for sender in (oxbus.ServiceBusSender, oxbus.aio.ServiceBusSender):
        for method, operation in _SENDS.items():
            _replace(sender, method, functools.partial(_traced_send, tracer, operation))
    for receiver in (oxbus.ServiceBusReceiver, oxbus.aio.ServiceBusReceiver):
        for method in _RECEIVES:
            _replace(receiver, method, functools.partial(_traced_receive, tracer))
        for settlement in _SETTLEMENTS:
            for method in (f"{settlement}_message", f"{settlement}_messages"):
                _replace(receiver, method, functools.partial(_traced_settlement, tracer, settlement))


def uninstrument() -> None:
    """End what `instrument` began. Raises nothing."""
    while _replaced:
        owner, name, original = _replaced.pop()
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def trace_server(server: Server, tracer_provider: TracerProvider | None = None) -> ServerSpans:
    """Write spans for what a server does for its clients, until it is closed.

    A span belongs to the trace of the message, or of the HTTP request, that it is about. `oxbus serve --otlp-endpoint`
    does this for a server of its own.

    Args:
        server: A server that `oxbus.server.serve` started.
        tracer_provider: Where spans go; None: the global one of OpenTelemetry.

    Returns:
        A handle, whose `join` waits after the close of the server until its last span is written.

    Raises nothing.

    Source: docs/traces.md.
    """
    return ServerSpans(server, trace.get_tracer("oxbus", oxbus.__version__, tracer_provider))


def context_of(message: Any) -> Context:
    """Return the context that the sender of a message gave it, to start spans below it.

    Args:
        message: A received message, or application properties, such as those of a row in Spark.

    Returns:
        The context; an empty one if the message has none.

    Raises nothing.
    """
    properties = getattr(message, "application_properties", message)
    return propagate.extract(_texts(properties) if isinstance(properties, Mapping) else {})


@contextmanager
def process(message: Any, name: str = "process", tracer_provider: TracerProvider | None = None) -> Iterator[Span]:
    """Run the handler of a message in a span below that of its sender; an exception marks it as failed.

    Args:
        message: A received message, or its application properties.
        name: What the span begins with.
        tracer_provider: Where the span goes; None: the global one of OpenTelemetry.

    Yields:
        The span.

    Raises nothing of its own.
    """
    tracer = trace.get_tracer("oxbus", oxbus.__version__, tracer_provider)
    attributes: dict[str, Any] = {"messaging.operation.type": "process", **_attributes(None, "process")}
    message_id = getattr(message, "message_id", None)
    if message_id is not None:
        attributes["messaging.message.id"] = str(message_id)
    with tracer.start_as_current_span(name, context_of(message), SpanKind.CONSUMER, attributes) as span:
        yield span


def _attributes(path: str | None, operation: str) -> dict[str, Any]:
    attributes = {"messaging.system": "servicebus", "messaging.operation.name": operation}
    if path is not None:
        attributes["messaging.destination.name"] = path
    return attributes


def _texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    """The properties that carry contexts: names and values of received messages may be bytes."""

    def text(value: Any) -> str:
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    texts = {text(name): text(value) for name, value in properties.items()}
    if "traceparent" not in texts and "Diagnostic-Id" in texts:
        texts["traceparent"] = texts["Diagnostic-Id"]
    return texts


def _link_of(message: Any) -> Link | None:
    span = trace.get_current_span(context_of(message)).get_span_context()
    return Link(span) if span.is_valid else None


def _links_of(messages: Iterable[Any]) -> list[Link]:
    links = [link for message in messages if (link := _link_of(message)) is not None]
    return links[:_LINKS_MAX]


def _inject(message: Any) -> None:
    """Give a message the current context, unless it has one."""
    if not isinstance(message, ServiceBusMessage):
        return
    properties = dict(message.application_properties or {})
    if {"traceparent", b"traceparent"} & properties.keys():
        return
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if "traceparent" in carrier:
        message.application_properties = properties | carrier | {"Diagnostic-Id": carrier["traceparent"]}


def _replace(owner: type, name: str, traced: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return
    _replaced.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, functools.wraps(original)(traced(original)))


def _path_of(handle: Any) -> str:
    native = getattr(handle, "_sender", None) or getattr(handle, "_receiver", None) or handle
    return str(native._entity_path)


def _listed(messages: Any) -> tuple[Any, list[Any]]:
    """The argument of a call, which may be an iterator, and the messages in it that can be seen."""
    if isinstance(messages, ServiceBusMessageBatch):
        return messages, []
    if isinstance(messages, (ServiceBusMessage, Mapping, str, bytes)) or not hasattr(messages, "__iter__"):
        return messages, [messages]
    messages = list(messages)
    return messages, messages


def _traced_add(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    def add_message(batch: ServiceBusMessageBatch, message: Any, *args: Any, **kwargs: Any) -> Any:
        with tracer.start_as_current_span("create", kind=SpanKind.PRODUCER, attributes=_attributes(None, "create")):
            _inject(message)
        return original(batch, message, *args, **kwargs)

    return add_message


@contextmanager
def _span(tracer: Tracer, handle: Any, operation: str, kind: str, messages: list[Any]) -> Iterator[Span]:
    path = _path_of(handle)
    links = _links_of(messages)
    spans = SpanKind.PRODUCER if kind == "send" else SpanKind.CLIENT
    attributes = _attributes(path, operation) | {"messaging.operation.type": kind}
    if len(messages) == 1:
        if (message_id := getattr(messages[0], "message_id", None)) is not None:
            attributes["messaging.message.id"] = str(message_id)
    elif messages:
        attributes["messaging.batch.message_count"] = len(messages)
    with tracer.start_as_current_span(f"{operation} {path}", kind=spans, attributes=attributes, links=links) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
    """The messages of a call, and its arguments, of which an iterator of messages was read."""
    if args:
        argument, messages = _listed(args[0])
        return messages, (argument, *args[1:]), kwargs
    for name in ("message", "messages"):
        if name in kwargs:
            argument, messages = _listed(kwargs[name])
            return messages, args, kwargs | {name: argument}
    return [], args, kwargs


_inner: Counter[int] = Counter()
"""Native handles in calls of their asyncio counterparts, by id: the outer call has the span."""


@contextmanager
def _native_of(handle: Any) -> Iterator[None]:
    native = getattr(handle, "_sender", None) or getattr(handle, "_receiver", None)
    if native is None:
        yield
        return
    _inner[id(native)] += 1
    try:
        yield
    finally:
        _inner[id(native)] -= 1
        if not _inner[id(native)]:
            del _inner[id(native)]


def _around(
    original: Callable[..., Any],
    spans: Callable[..., Any],
    *,
    after: Callable[[Span, Any], None] = lambda _span, _result: None,
) -> Callable[..., Any]:
    """The method within a span: a coroutine if the method is one."""
    if inspect.iscoroutinefunction(original):

        async def awaited(handle: Any, *args: Any, **kwargs: Any) -> Any:
            with spans(handle, args, kwargs) as (span, given, named), _native_of(handle):
                result = await original(handle, *given, **named)
                after(span, result)
                return result

        return awaited

    def called(handle: Any, *args: Any, **kwargs: Any) -> Any:
        if id(handle) in _inner:
            return original(handle, *args, **kwargs)
        with spans(handle, args, kwargs) as (span, given, named):
            result = original(handle, *given, **named)
            after(span, result)
            return result

    return called


_Call = tuple["Span", tuple[Any, ...], dict[str, Any]]
"""A span, and the arguments of the call in it."""


def _traced_send(tracer: Tracer, operation: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def spans(handle: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Call]:
        messages, args, kwargs = _argument(args, kwargs)
        with _span(tracer, handle, operation, "send", messages) as span:
            for message in messages:
                _inject(message)
            yield span, args, kwargs

    return _around(original, spans)


def _traced_receive(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def spans(handle: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Call]:
        path = _path_of(handle)
        attributes = _attributes(path, "receive") | {"messaging.operation.type": "receive"}
        span = tracer.start_span(f"receive {path}", kind=SpanKind.CLIENT, attributes=attributes)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span, args, kwargs
        except (StopIteration, StopAsyncIteration):
            # The end of an iteration is no error.
            raise
        except BaseException as error:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR)
            raise
        finally:
            span.end()

    def after(span: Span, received: Any) -> None:
        messages = received if isinstance(received, list) else [received]
        span.set_attribute("messaging.batch.message_count", len(messages))
        for link in _links_of(messages):
            span.add_link(link.context)

    return _around(original, spans, after=after)


def _traced_settlement(tracer: Tracer, operation: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def spans(handle: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Call]:
        messages, args, kwargs = _argument(args, kwargs)
        with _span(tracer, handle, operation, "settle", messages) as span:
            yield span, args, kwargs

    return _around(original, spans)
