# SPDX-License-Identifier: Apache-2.0
"""Server lifecycle: ports, protocols, certificates, metrics, shutdown (B-407)."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from certificates import make_certificate
from oxbus import Namespace, ServiceBusMessage
from oxbus.server import serve
from plain_http import Http
from signatures import token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus import ServiceBusClient
    from oxbus.server import Server


def test_each_port_accepts_every_protocol(namespace: Namespace, certificate: Path) -> None:
    """B-407: HTTP and HTTPS on all four ports; a port's name is the protocol that clients expect, not the only one."""
    with serve(namespace, amqp_port=0, amqps_port=0, http_port=0, https_port=0, certificate_out=certificate) as server:
        ports = [server.amqp_port, server.amqps_port, server.http_port, server.https_port]
        assert len(set(ports)) == 4
        assert server.port == server.amqp_port
        trusting = ssl.create_default_context(cafile=str(certificate))
        for port in ports:
            for connection in (
                http.client.HTTPConnection("127.0.0.1", port, timeout=60),
                http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=trusting),
                http.client.HTTPSConnection("localhost", port, timeout=60, context=trusting),
            ):
                connection.request("GET", "/health")
                assert json.loads(connection.getresponse().read()) == {"status": "healthy"}
                connection.close()


def test_development_certificate_is_not_trusted_by_default(server: Server) -> None:
    """Its issuer is generated at the start."""
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/health")
    connection.close()


def test_connection_string_works_in_sdks(server: Server) -> None:
    """The string has the development key and the port."""
    assert server.connection_string == (
        f"Endpoint=sb://127.0.0.1:{server.port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
    )


def test_metrics_are_text_for_prometheus(ask: Http, client: ServiceBusClient, queue_name: str) -> None:
    """Counts of entities, partitions and requests, with labels."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
    ask("GET", "/missing")
    ask.token = None
    answer = ask("GET", "/metrics")
    lines = answer.body.decode().splitlines()
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert f'oxbus_active_messages{{entity="{queue_name}",kind="queue"}} 2.0' in lines
    assert 'oxbus_partition_healthy{partition="0"} 1.0' in lines
    assert 'oxbus_http_requests_total{outcome="refused"} 1' in lines
    assert "# TYPE oxbus_http_requests_total counter" in lines


def test_metrics_are_open_metrics_for_who_asks(ask: Http) -> None:
    """Prometheus asks for this format first."""
    ask.token = None
    answer = ask("GET", "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    lines = answer.body.decode().splitlines()
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert "# TYPE oxbus_http_requests counter" in lines
    assert lines[-1] == "# EOF"


def test_close_ends_waits_and_frees_the_port(
    namespace: Namespace, in_background: Callable[..., Any], queue_name: str
) -> None:
    """A waiting receive ends with 204; another server may use the port at once."""
    server = serve(namespace)
    ask = Http(server)
    assert ask("GET", f"/{queue_name}").status == 200
    waiting = in_background(ask, "POST", f"/{queue_name}/messages/head?timeout=3000")
    server.close()
    server.close()
    # The server may have closed before the request.
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert waiting.result().status == 204
    ask.connection.close()
    assert server.closed
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))
    with serve(namespace, amqp_port=server.port) as again:
        assert again.port == server.port


def test_message_of_a_disconnected_client_is_released(
    server: Server, ask: Http, client: ServiceBusClient, queue_name: str
) -> None:
    """A message for a disconnected client goes to the next one, without a counted delivery."""
    with socket.create_connection((server.host, server.port)) as disconnected:
        line = (
            f"POST /{queue_name}/messages/head?timeout=60 HTTP/1.1\r\nhost: x\r\nauthorization: {token('sb://x')}\r\n"
        )
        disconnected.sendall(f"{line}content-length: 0\r\n\r\n".encode())
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    answer = ask("POST", f"/{queue_name}/messages/head?timeout=60")
    assert (answer.body, answer.properties["DeliveryCount"]) == (b"x", 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"amqp_port": 70000}, "amqp_port is out of range"),
        ({"https_port": -1}, "https_port is out of range"),
        ({"amqp_port": None}, "needs a port"),
        ({"certificate": "nothing.pem"}, "belong together"),
        ({"certificate": "nothing.pem", "private_key": "nothing.pem"}, "PEM file"),
    ],
)
def test_invalid_options(namespace: Namespace, options: dict[str, Any], text: str) -> None:
    """Each error explains how to resolve it."""
    with pytest.raises(ValueError, match=text):
        serve(namespace, **options)


def test_port_in_use(namespace: Namespace, server: Server) -> None:
    """The error names the port."""
    with pytest.raises(OSError, match=f"port={server.port}"):
        serve(namespace, amqp_port=server.port)


def test_certificate_of_the_caller(namespace: Namespace, tmp_path: Path) -> None:
    """Clients get this certificate; the server generates and writes none."""
    certificate, private_key = make_certificate(tmp_path, "127.0.0.1")
    with serve(namespace, certificate=certificate, private_key=private_key) as server:
        assert server.certificate is None
        trusting = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=trusting)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
    with pytest.raises(ValueError, match="certificate_out"):
        serve(namespace, certificate=certificate, private_key=private_key, certificate_out=tmp_path / "x.pem")
