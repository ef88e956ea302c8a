# SPDX-License-Identifier: Apache-2.0
"""Spans of a server belong to the traces of its clients, in a program and exported by `oxbus serve`."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, cast

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, otel
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from oxbus.testing import ManualClock
from proton.utils import BlockingConnection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan
    from oxbus.server import Server

QUEUE = "orders"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{PARENT}-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"


class Traced:
    """A server in this process, and its spans, which are complete once it is closed."""

    def __init__(self, namespace: Namespace) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._server = serve(namespace)
        self._spans = otel.trace_server(self._server, provider)
        self.address = self._server.connection_string
        self.port = self._server.port

    def end(self) -> dict[str, list[ReadableSpan]]:
        """Close the server; return its spans by name."""
        self._server.close()
        self._spans.join()
        found = defaultdict(list)
        for span in self._exporter.get_finished_spans():
            found[span.name].append(span)
        return found


@pytest.fixture
def bus() -> Iterator[Namespace]:
    """A namespace with a queue."""
    with Namespace() as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE)
        yield bus


def message(body: str, context: str = CONTEXT) -> Any:
    """A message of the SDK that carries a context."""
    return SdkMessage(body, application_properties={"traceparent": context, "Diagnostic-Id": context})


def parent_of(span: ReadableSpan) -> tuple[str, str]:
    """The trace and the parent of a span."""
    assert span.parent is not None
    return f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}"


def test_spans_of_a_message_are_below_its_sender(bus: Namespace) -> None:
    """Its send, its receive and its settlement."""
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address) as client:
        client.get_queue_sender(QUEUE).send_messages(message("x"))
        receiver = client.get_queue_receiver(QUEUE, max_wait_time=5)
        (received,) = receiver.receive_messages(1)
        receiver.complete_message(received)
    spans = traced.end()
    for operation in ("send", "receive", "settle"):
        (span,) = spans[f"{operation} {QUEUE}"]
        assert parent_of(span) == (TRACE, PARENT)
        assert span.kind == SpanKind.SERVER
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time >= span.start_time
        assert dict(span.attributes or {}) == {
            "messaging.system": "servicebus",
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": QUEUE,
        }


def test_batch_links_to_its_senders(bus: Namespace) -> None:
    """It has no single parent."""
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address) as client:
        client.get_queue_sender(QUEUE).send_messages([message("x"), message("y", OTHER), SdkMessage("z")])
    (span,) = traced.end()[f"send {QUEUE}"]
    assert span.parent is None
    assert {f"{link.context.trace_id:032x}" for link in span.links} == {TRACE, OTHER.split("-")[1]}
    assert (span.attributes or {})["messaging.batch.message_count"] == 3


def test_refused_message_is_an_error(bus: Namespace) -> None:
    """The AMQP condition is its type."""
    admin = ServiceBusAdministrationClient(bus)
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address, retry_total=0) as client:
        sender = client.get_queue_sender(QUEUE)
        sender.send_messages(message("x"))
        queue = admin.get_queue(QUEUE)
        queue.status = "SendDisabled"
        admin.update_queue(queue)
        with pytest.raises(Exception, match="disabled"):
            sender.send_messages(message("y"))
    _, refused = traced.end()[f"send {QUEUE}"]
    assert refused.status.status_code == StatusCode.ERROR
    assert (refused.attributes or {})["error.type"] == "com.microsoft:entity-disabled"


def request(traced: Traced, method: str, path: str, **headers: str) -> int:
    """Send a request without a token; return the status of its response."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", traced.port, timeout=30)) as connection:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status


def test_request_over_http_is_below_its_header(bus: Namespace) -> None:
    """Its query, which may have a signature, is not shown."""
    traced = Traced(bus)
    assert request(traced, "GET", "/$health?sig=secret", traceparent=CONTEXT) == 200
    (span,) = traced.end()["GET /$health"]
    assert parent_of(span) == (TRACE, PARENT)
    assert span.status.status_code == StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/$health",
        "url.path": "/$health",
        "url.scheme": "http",
    }


@pytest.mark.parametrize(
    ("method", "path", "name", "status"),
    [
        ("POST", "/orders/messages", "POST /{entity}/messages", 401),
        ("DELETE", "/orders/messages/1/2", "DELETE /{entity}/messages/{message}/{lock}", 401),
        ("GET", "/t/subscriptions/s/rules/r", "GET /{topic}/subscriptions/{subscription}/rules/{rule}", 401),
        ("GET", "/$console/queues/orders", "GET /$console/{page}", None),
        ("POST", "/$bulk/v1/send?entity=orders", "POST /$bulk/v1/send", 401),
        ("POST", "/$bulk/v1/reservations/read", "POST /$bulk/v1/reservations/read", None),
        ("POST", "/$bulk/v1/nothing", "POST /$bulk/{route}", None),
        ("GET", "/a//b", "GET", 400),
        ("PATCH", "/orders", "PATCH /{entity}", None),
        ("INVENTED", "/orders", "HTTP /{entity}", None),
    ],
)
def test_span_of_a_request_has_the_name_of_its_route(
    bus: Namespace, method: str, path: str, name: str, status: int | None
) -> None:
    """Names of entities would make too many names. A mistake of the client is no error of the server."""
    traced = Traced(bus)
    found = request(traced, method, path)
    assert found == status or (status is None and found < 500)
    (span,) = traced.end()[name]
    attributes = span.attributes or {}
    assert attributes["http.request.method"] == ("_OTHER" if method == "INVENTED" else method)
    assert attributes["http.response.status_code"] == found
    assert attributes["url.path"] == path.partition("?")[0]
    assert attributes.get("http.route") == name.partition(" ")[2] or "http.route" not in attributes
    assert "error.type" not in attributes
    assert span.status.status_code == StatusCode.UNSET


def test_error_of_the_server_is_an_error(bus: Namespace) -> None:
    """Its status is the type."""
    traced = Traced(bus)
    bus.close()
    status = request(traced, "GET", "/$health/ready")
    assert status >= 500
    (span,) = traced.end()["GET /$health/ready"]
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == str(status)


def test_long_texts_of_clients_are_not_kept(bus: Namespace) -> None:
    """A context that is too long is none, and a path is cut; the other property of a message still counts."""
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address) as client:
        sender = client.get_queue_sender(QUEUE)
        properties: dict[str | bytes, Any] = {"traceparent": CONTEXT + "-" + "x" * 128, "Diagnostic-Id": CONTEXT}
        sender.send_messages(SdkMessage("x", application_properties=properties))
    request(traced, "GET", "/" + "p" * 5000, traceparent=CONTEXT + "-" + "x" * 128)
    spans = traced.end()
    (sent,) = spans[f"send {QUEUE}"]
    assert parent_of(sent) == (TRACE, PARENT)
    (asked,) = spans["GET /{entity}"]
    assert asked.parent is None
    assert (asked.attributes or {})["url.path"] == "/" + "p" * 255


def test_batch_with_one_context_is_no_child(bus: Namespace) -> None:
    """It belongs to the other messages as well."""
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address) as client:
        client.get_queue_sender(QUEUE).send_messages([message("x"), SdkMessage("y")])
    (span,) = traced.end()[f"send {QUEUE}"]
    assert span.parent is None
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]


def test_propagator_of_the_program_does_not_matter(bus: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages carry the context as Trace Context says."""
    monkeypatch.setattr(propagate, "extract", lambda *_args, **_named: Context())
    traced = Traced(bus)
    with SdkClient.from_connection_string(traced.address) as client:
        client.get_queue_sender(QUEUE).send_messages(message("x"))
    (span,) = traced.end()[f"send {QUEUE}"]
    assert parent_of(span) == (TRACE, PARENT)


def test_settlement_that_fails_is_an_error() -> None:
    """Also if the client settled it itself, and so wants no answer."""
    clock = ManualClock()
    with Namespace(clock=clock) as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE, lock_duration=timedelta(seconds=30))
        traced = Traced(bus)
        with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        url = f"amqp://RootManageSharedAccessKey:SAS_KEY_VALUE@127.0.0.1:{traced.port}"
        connection = BlockingConnection(url, timeout=60, allow_insecure_mechs=True, allowed_mechs="PLAIN")
        receiver = connection.create_receiver(QUEUE)
        receiver.receive(timeout=60)
        clock.advance(31)
        receiver.accept()
        connection.close()
        (span,) = traced.end()[f"settle {QUEUE}"]
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "com.microsoft:message-lock-lost"


class FailingOnce(SpanProcessor):
    """Raises at the end of its first span, and counts the others."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self._has_failed = False

    def on_end(self, span: ReadableSpan) -> None:
        """Fail, or note the name."""
        if not self._has_failed:
            self._has_failed = True
            raise RuntimeError("no room")
        self.ended.append(span.name)


def test_failing_processor_does_not_end_the_spans(bus: Namespace, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that one is missing."""
    processor, provider = FailingOnce(), TracerProvider()
    provider.add_span_processor(processor)
    with serve(bus) as server:
        spans = otel.trace_server(server, provider)
        with (
            ServiceBusClient.from_connection_string(server.connection_string) as client,
            client.get_queue_sender(QUEUE) as sender,
        ):
            for _ in range(3):
                sender.send_messages(ServiceBusMessage("x"))
    spans.join()
    assert processor.ended == [f"send {QUEUE}"] * 2
    assert "1 spans were not written, because OpenTelemetry failed" in caplog.text
    assert "no room" in caplog.text


class ClosedServer:
    """A server that was closed while a call was running, which ends later."""

    closed = True

    def __init__(self) -> None:
        later = ("send", QUEUE, [CONTEXT], 1, None, 2_000, 1_000, None)
        # The first call switches records on, and the second is that of the thread.
        self._takes: list[list[Any]] = [[], [], [later]]

    def _take_spans(self, _limit: float) -> list[Any]:
        return self._takes.pop(0)


def test_call_that_ends_while_the_server_closes_has_a_span() -> None:
    """The thread may have ended by then."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = otel.trace_server(cast("Server", ClosedServer()), provider)
    spans.join()
    (span,) = exporter.get_finished_spans()
    assert span.name == f"send {QUEUE}"
    assert parent_of(span) == (TRACE, PARENT)


def test_nothing_is_recorded_unless_somebody_asks(bus: Namespace) -> None:
    """The first call switches it on."""
    with serve(bus) as server:
        with ServiceBusClient.from_connection_string(server.connection_string) as client:
            with client.get_queue_sender(QUEUE) as sender:
                sender.send_messages(ServiceBusMessage("x"))
                assert server._take_spans(0) == []
                sender.send_messages(ServiceBusMessage("y"))
            operations = [taken[0] for taken in server._take_spans(30)]
        assert operations == ["send"]


class Collector:
    """Takes exports over OTLP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                export = ExportTraceServiceRequest()
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip  # noqa: PLC0415 -- not usual

                    content = gzip.decompress(content)
                export.ParseFromString(content)
                for resource in export.resource_spans:
                    outer.services |= {
                        attribute.value.string_value
                        for attribute in resource.resource.attributes
                        if attribute.key == "service.name"
                    }
                    outer.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Take no more exports."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def test_command_exports_to_a_collector(tmp_path: Path) -> None:
    """With OTLP over HTTP; the last spans at the end."""
    with Namespace(tmp_path / "bus") as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE)
    collector = Collector()
    words = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(tmp_path / "bus"), "--amqp-port", "0", "--json"]
    words += ["--otlp-endpoint", collector.url]
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["connection_string"]
            with SdkClient.from_connection_string(address) as client:
                client.get_queue_sender(QUEUE).send_messages(message("x"))
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
    finally:
        collector.close()
    (sent,) = (span for span in collector.spans if span.name == f"send {QUEUE}")
    assert (sent.trace_id.hex(), sent.parent_span_id.hex()) == (TRACE, PARENT)
    assert collector.services == {"oxbus"}


def test_address_of_the_collector_is_checked(tmp_path: Path) -> None:
    """One line on standard error, before anything is opened."""
    words = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(tmp_path / "bus"), "--amqp-port", "0"]
    done = subprocess.run([*words, "--otlp-endpoint", "localhost:4318"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert not (tmp_path / "bus").exists()
    assert "--otlp-endpoint must be a URL such as http://localhost:4318: `localhost:4318`" in done.stderr
