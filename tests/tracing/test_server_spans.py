# SPDX-License-Identifier: Apache-2.0
"""Spans of a server belong to the traces of its clients, in a program and exported by `oxbus serve`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, otel
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

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
            "messaging.batch.message_count": 1,
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


def test_request_over_http_is_below_its_header(bus: Namespace) -> None:
    """Its query, which may have a signature, is not shown."""
    traced = Traced(bus)
    request = urllib.request.Request(
        f"http://127.0.0.1:{traced.port}/$health?sig=secret", headers={"traceparent": CONTEXT}
    )
    urllib.request.urlopen(request, timeout=30).read()  # noqa: S310 -- to the server above
    (span,) = traced.end()["GET /$health"]
    assert parent_of(span) == (TRACE, PARENT)
    assert dict(span.attributes or {}) == {"http.request.method": "GET", "url.path": "/$health"}


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
    """One line on standard error."""
    with Namespace(tmp_path / "bus"):
        pass
    words = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(tmp_path / "bus"), "--amqp-port", "0"]
    done = subprocess.run([*words, "--otlp-endpoint", "localhost:4318"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--otlp-endpoint must be a URL such as http://localhost:4318: `localhost:4318`" in done.stderr
