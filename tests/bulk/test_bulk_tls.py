# SPDX-License-Identifier: Apache-2.0
"""Bulk clients over TLS, on the port of all other protocols."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from certificates import make_certificate
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusConnectionError
from oxbus.server import serve
from signatures import KEY, KEY_NAME, connection_string

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus import Namespace
    from oxbus.server import Server


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1."""
    return make_certificate(tmp_path, "127.0.0.1")


@pytest.fixture
def secure(namespace: Namespace, certificate: tuple[Path, Path]) -> Iterator[Server]:
    """A server with the test's certificate, on one port."""
    with serve(
        namespace, amqp_port=None, amqps_port=0, certificate=certificate[0], private_key=certificate[1]
    ) as server:
        yield server


def encrypted(port: int) -> str:
    """A connection string for a server with TLS."""
    return f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={KEY_NAME};SharedAccessKey={KEY}"


def test_all_calls_work_over_tls(
    secure: Server, certificate: tuple[Path, Path], queue_name: str, rows: Callable[..., Any]
) -> None:
    """Rows in both directions, more than one chunk of a stream, over reused connections."""
    assert secure.connection_string == encrypted(secure.port), "TLS is the default"
    with BulkClient(secure.connection_string, ca_file=certificate[0]) as client:
        for _ in range(3):
            assert sum(client.send(queue_name, pa.table({"body": [b"x" * 1000] * 5000})).values()) == 5000
        received = 0
        while received < 15_000:
            table = client.receive(queue_name, max_message_count=15_000)
            assert len(table)
            assert client.settle(queue_name, table, "complete") == []
            received += len(table)
        with pytest.raises(ValueError, match="`surprise`"):
            client.send(queue_name, rows(1, surprise=[1]))
        assert client.describe(queue_name)["active_messages"] == 0


def test_one_port_has_bulk_clients_sdks_and_http(
    secure: Server, certificate: tuple[Path, Path], queue_name: str
) -> None:
    """With and without TLS, on the same port at the same time."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    plain = connection_string(secure.port)
    with (
        BulkClient(secure.connection_string, ca_file=certificate[0]) as inside,
        BulkClient(plain) as outside,
        SdkClient.from_connection_string(plain) as sdk,
        sdk.get_queue_sender(queue_name) as sender,
    ):
        connection = http.client.HTTPSConnection("127.0.0.1", secure.port, timeout=60, context=trusting)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        sender.send_messages(SdkMessage("amqp"))
        assert sum(inside.send(queue_name, pa.table({"body": [b"tls"]})).values()) == 1
        assert sum(outside.send(queue_name, pa.table({"body": [b"plain"]})).values()) == 1
        table: Any = pa.table(inside.receive(queue_name, max_message_count=3, max_wait_time=60))
        bodies = set(table["body"].to_pylist())
        while len(bodies) < 3:
            bodies |= set(pa.table(outside.receive(queue_name, max_message_count=3))["body"].to_pylist())
        assert bodies == {b"amqp", b"tls", b"plain"}


def test_untrusted_server_is_rejected(
    secure: Server, tmp_path: Path, certificate: tuple[Path, Path], namespace: Namespace
) -> None:
    """Another issuer, another address, and a server without TLS."""
    stranger, _ = make_certificate(tmp_path, "127.0.0.3")
    with (
        BulkClient(secure.connection_string, ca_file=stranger) as client,
        pytest.raises(ServiceBusConnectionError, match="certificate"),
    ):
        client.stages()
    with (
        serve(
            namespace,
            host="127.0.0.2",
            amqp_port=None,
            amqps_port=0,
            certificate=certificate[0],
            private_key=certificate[1],
        ) as misplaced,
        BulkClient(misplaced.connection_string, ca_file=certificate[0]) as client,
        pytest.raises(ServiceBusConnectionError, match="certificate"),
    ):
        client.stages()


def test_development_certificate_is_trusted_by_its_file(namespace: Namespace, tmp_path: Path) -> None:
    """A bulk client accepts the certificate file that the server writes."""
    issuer = tmp_path / "issuer.pem"
    with serve(namespace, certificate_out=issuer) as server:
        with BulkClient(encrypted(server.port), ca_file=issuer) as client:
            assert client.stages() == []
        with (
            BulkClient(encrypted(server.port)) as client,
            pytest.raises(ServiceBusConnectionError, match="certificate"),
        ):
            client.stages()


def test_invalid_certificate_files(namespace: Namespace, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """The server and the client reject files that are not a certificate or a key."""
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    other = make_certificate(tmp_path, "127.0.0.9")
    for chain, key in ((nothing, certificate[1]), (certificate[0], nothing), (certificate[0], other[1])):
        with pytest.raises(ValueError, match=r"certificate|private_key"):
            serve(namespace, certificate=chain, private_key=key)
    for path, text in ((nothing, "no certificate"), (tmp_path / "missing.pem", "cannot be read")):
        with pytest.raises(ValueError, match=text):
            BulkClient(encrypted(1), ca_file=path)
