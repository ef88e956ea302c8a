# SPDX-License-Identifier: Apache-2.0
"""Spans of senders and receivers, and contexts that travel with messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import oxbus.aio
import pytest
from azure.core.settings import settings
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiver, otel
from oxbus.exceptions import MessageAlreadySettled
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE = "orders"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Where the spans of this process go; OpenTelemetry lets it be set once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    """The spans of one test, in which oxbus is instrumented."""
    exporter.clear()
    otel.instrument()
    yield exporter
    otel.uninstrument()


@pytest.fixture
def traced_sdk() -> Iterator[None]:
    """Let the Azure SDK write spans; tests/conftest.py turns it off for all others."""
    settings.tracing_implementation = "opentelemetry"
    yield
    settings.tracing_implementation = None


@pytest.fixture
def bus() -> Iterator[Namespace]:
    """A namespace with a queue."""
    with Namespace() as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE)
        yield bus


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """The finished spans of a name."""
    return [span for span in spans.get_finished_spans() if span.name == name]


def trace_id(span: ReadableSpan) -> int:
    """The trace of a span."""
    assert span.context is not None
    return int(span.context.trace_id)


def linked(span: ReadableSpan) -> set[int]:
    """The traces that a span links to."""
    return {link.context.trace_id for link in span.links}


def send_receive_complete(bus: Namespace) -> Any:
    """One cycle; returns the received message."""
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x", message_id="1", application_properties={"own": 1}))
        (received,) = receiver.receive_messages(1, max_wait_time=0)
        with otel.process(received):
            receiver.complete_message(received)
        return received


def test_a_cycle_is_one_trace(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """Processing is below the send; the receive and the settlement link to it."""
    received = send_receive_complete(bus)
    (sent,) = named(spans, f"send {QUEUE}")
    (receive,) = named(spans, f"receive {QUEUE}")
    (processed,) = named(spans, "process")
    (completed,) = named(spans, f"complete {QUEUE}")
    assert trace_id(processed) == trace_id(completed) == trace_id(sent)
    assert processed.parent is not None
    assert sent.context is not None
    assert processed.parent.span_id == sent.context.span_id
    assert linked(receive) == linked(completed) == {trace_id(sent)}
    assert [span.kind for span in (sent, receive, processed, completed)] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    assert dict(sent.attributes or {}) == {
        "messaging.system": "servicebus",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": QUEUE,
        "messaging.message.id": "1",
    }
    properties = {_text(name): value for name, value in received.application_properties.items()}
    assert properties["own"] == 1, "own properties stay"
    assert _text(properties["Diagnostic-Id"]) == _text(properties["traceparent"])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_nothing_is_added_without_instrument(bus: Namespace, exporter: InMemorySpanExporter) -> None:
    """Neither spans nor properties; `uninstrument` leaves the methods as they were."""
    before = ServiceBusReceiver.receive_messages
    otel.instrument()
    otel.instrument()
    assert ServiceBusReceiver.receive_messages is not before
    otel.uninstrument()
    exporter.clear()
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x"))
        (received,) = receiver.receive_messages(1, max_wait_time=0)
    assert not received.application_properties
    assert not exporter.get_finished_spans()


def test_lists_and_batches_carry_contexts(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """A list, an iterator, a batch, and a scheduled message; a message with a context keeps it."""
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages([ServiceBusMessage("list"), ServiceBusMessage("list")])
        sender.send_messages(iter([ServiceBusMessage("iterator")]))
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("batch"))
        sender.send_messages(batch)
        own = f"00-{'1' * 32}-{'2' * 16}-01"
        sender.send_messages(message=ServiceBusMessage("own", application_properties={"traceparent": own}))
        received = {str(message): message for message in receiver.receive_messages(10, max_wait_time=0)}
        assert set(received) == {"list", "iterator", "batch", "own"}
        receiver.complete_messages(list(received.values()))
    counted = [
        dict(span.attributes or {}).get("messaging.batch.message_count") for span in named(spans, f"send {QUEUE}")
    ]
    assert counted == [2, None, None, None]
    contexts = {body: trace.get_current_span(otel.context_of(message)) for body, message in received.items()}
    assert all(span.get_span_context().is_valid for span in contexts.values())
    assert contexts["own"].get_span_context().trace_id == int("1" * 32, 16)
    (settled,) = named(spans, f"complete {QUEUE}")
    assert len(settled.links) == 4


def test_iteration_is_traced_and_its_end_is_no_error(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """One span for each message and one for the end."""
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE, max_wait_time=0) as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x"))
        assert [str(message) for message in receiver] == ["x"]
    received = named(spans, f"receive {QUEUE}")
    assert [len(span.links) for span in received] == [1, 0]
    assert all(span.status.status_code is StatusCode.UNSET for span in received)


def test_errors_are_on_the_span(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """The error passes through as it is."""
    received = send_receive_complete(bus)
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_receiver(QUEUE) as receiver,
        pytest.raises(MessageAlreadySettled),
    ):
        receiver.complete_message(received)
    failed = named(spans, f"complete {QUEUE}")[-1]
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "MessageAlreadySettled"


def test_asyncio_has_the_same_spans(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """One for each call, although threads work for it."""

    async def cycle() -> None:
        async with (
            oxbus.aio.ServiceBusClient(bus) as client,
            client.get_queue_sender(QUEUE) as sender,
            client.get_queue_receiver(QUEUE) as receiver,
        ):
            await sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
            received = await receiver.receive_messages(2, max_wait_time=1)
            await receiver.complete_message(received[0])
            await receiver.abandon_message(received[1])

    asyncio.run(cycle())
    names = [span.name for span in spans.get_finished_spans()]
    assert names == [f"{operation} {QUEUE}" for operation in ("send", "receive", "complete", "abandon")]


@pytest.mark.usefixtures("traced_sdk")
def test_one_trace_from_the_azure_sdk_to_an_oxbus_receiver(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """The SDK's sender writes the context, the server carries it, and `process` goes on below it."""
    tracer = trace.get_tracer("test")
    with serve(bus) as server:
        with (
            tracer.start_as_current_span("order") as order,
            SdkClient.from_connection_string(server.connection_string) as sdk,
            sdk.get_queue_sender(QUEUE) as sender,
        ):
            sender.send_messages(SdkMessage("x"))
        with (
            ServiceBusClient.from_connection_string(server.connection_string) as client,
            client.get_queue_receiver(QUEUE) as receiver,
        ):
            (received,) = receiver.receive_messages(1, max_wait_time=5)
            with otel.process(received):
                receiver.complete_message(received)
    (processed,) = named(spans, "process")
    assert trace_id(processed) == order.get_span_context().trace_id


@pytest.mark.usefixtures("traced_sdk")
def test_the_azure_sdk_goes_on_with_a_trace_of_oxbus(bus: Namespace, spans: InMemorySpanExporter) -> None:
    """Its receive span links to the sender's."""
    with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    (sent,) = named(spans, f"send {QUEUE}")
    with (
        serve(bus) as server,
        SdkClient.from_connection_string(server.connection_string) as sdk,
        sdk.get_queue_receiver(QUEUE) as receiver,
    ):
        receiver.complete_message(receiver.receive_messages(max_wait_time=5)[0])
    assert any(trace_id(sent) in linked(span) for span in named(spans, "ServiceBus.receive"))
