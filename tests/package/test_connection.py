# SPDX-License-Identifier: Apache-2.0
"""Connection strings: their parts, rejected ones, and secrets, which no text shows."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from azure.servicebus import parse_connection_string as parse_with_the_sdk
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, parse_connection_string
from oxbus._connection import ServerAddress, parse
from oxbus.aio import ServiceBusClient as AsyncClient
from oxbus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

SERVER = "Endpoint=sb://bus.example.net/;SharedAccessKeyName=root;SharedAccessKey=c2VjcmV0=;EntityPath=orders"


def test_parts_of_a_server_string_are_those_of_the_sdk() -> None:
    """The same string gives the same parts in both packages."""
    ours, theirs = parse_connection_string(SERVER), parse_with_the_sdk(SERVER)
    for name in ours:
        assert ours[name] == getattr(theirs, name), name


def test_parts_read_like_a_mapping() -> None:
    """Attributes and items are the same; unknown ones are a KeyError."""
    parts = parse_connection_string(SERVER)
    assert parts["entity_path"] == parts.entity_path == parts.get("entity_path") == "orders"
    assert len(parts) == len(list(parts.keys())) == len(list(parts.values())) == len(dict(parts.items())) == 6
    assert parts.has_key("endpoint")
    assert "endpoint" in parts
    assert parts.get("port", 5671) == 5671
    with pytest.raises(KeyError):
        _ = parts["port"]
    with pytest.raises(AttributeError):
        parts.entity_path = "other"  # type: ignore[misc]


def test_text_hides_the_secrets() -> None:
    """A log line never shows the key."""
    signed = parse_connection_string("Endpoint=sb://h/;SharedAccessSignature=SharedAccessSignature sig=c2ln")
    assert "c2VjcmV0" not in repr(parse_connection_string(SERVER))
    assert "c2ln" not in repr(signed)
    assert signed.shared_access_signature == "SharedAccessSignature sig=c2ln"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "EntityPath=orders",
        "Endpoint=bus.example.net",
        "Endpoint=sb://bus.example.net/",
        "Endpoint=sb://bus.example.net/;SharedAccessKeyName=root",
        "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=k;SharedAccessSignature=s",
        "Endpoint=memory://",
        "Endpoint=memory://name/more",
        "Endpoint=memory://a;memory://b",
        "Endpoint=memory://name;TransportType=Amqp",
        "Endpoint=file://host/dir",
        "file://relative",
        "Endpoint=ftp://host",
        "sb://bus.example.net",
        "Endpoint=sb://h:70000/;SharedAccessKeyName=n;SharedAccessKey=k",
        "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=yes",
    ],
)
def test_malformed_string_is_a_value_error(text: str) -> None:
    """A malformed string never opens a guessed namespace."""
    with pytest.raises(ValueError, match=r"[Cc]onnection string"):
        parse_connection_string(text)


def test_malformed_string_is_not_quoted() -> None:
    """Its key may be anywhere."""
    for text in (f"{SERVER};Surprise=c2VjcmV0", SERVER.replace(";SharedAccessKey=", ";"), f"{SERVER};EntityPath=x"):
        with pytest.raises(ValueError, match="onnection string") as refusal:
            parse_connection_string(text)
        assert "c2VjcmV0" not in str(refusal.value)
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        parse_connection_string(b"memory://x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "server"),
    [
        (SERVER, ServerAddress(host="bus.example.net", port=5671, tls=True)),
        (f"{SERVER};UseDevelopmentEmulator=true", ServerAddress(host="bus.example.net", port=5672, tls=False)),
        (
            "sb://[::1]:41234;SharedAccessSignature=SharedAccessSignature sr=a&sig=b",
            ServerAddress(host="::1", port=41234, tls=True),
        ),
    ],
)
def test_address_of_a_server(text: str, server: ServerAddress) -> None:
    """The host without brackets; without a port that of AMQP; TLS except for an emulator."""
    connection = parse(text)
    assert (connection.scheme, connection.server) == ("sb", server)


@pytest.mark.parametrize(
    "text", ["memory://parity-six", "Endpoint=memory://parity-six", "FILE://{}", "Endpoint=file://{}"]
)
def test_endpoint_may_be_a_bare_url(text: str, tmp_path: Path) -> None:
    """``Endpoint=`` is optional, also before other parts."""
    text = text.format(tmp_path / "a=b c")
    assert parse(text).server is None
    with ServiceBusAdministrationClient.from_connection_string(text) as admin:
        admin.create_queue("orders")
        with ServiceBusClient.from_connection_string(f"{text};EntityPath=orders") as client:
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        assert admin.get_queue_runtime_properties("orders").active_message_count == 1
        admin.delete_queue("orders")


def test_path_may_be_percent_encoded(tmp_path: Path) -> None:
    """A semicolon in a path would end the part."""
    directory = tmp_path / "a;b%c"
    text = f"file://{quote(str(directory))}"
    with ServiceBusAdministrationClient.from_connection_string(text) as admin:
        admin.create_queue("orders")
    assert (directory / "catalog").exists()
    parts = parse_connection_string(text)
    assert (parts.fully_qualified_namespace, parts.endpoint) == (str(directory), text)


def test_memory_names_one_namespace_per_name() -> None:
    """All clients of a name, in any letter case, share one namespace; another name is another one (B-018)."""
    admin = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://Parity-One")
    admin.create_queue("orders")
    with ServiceBusClient.from_connection_string("Endpoint=memory://parity-one/") as client:
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("hello"))
    assert admin.get_queue_runtime_properties("orders").active_message_count == 1
    other = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-two")
    assert list(other.list_queues()) == []


def test_closed_namespace_of_a_name_starts_empty() -> None:
    """Closing a named namespace drops it; the next client of the name starts empty."""
    admin = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-three")
    admin.create_queue("orders")
    admin._transport.namespace_for("test").close()
    again = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-three")
    assert list(again.list_queues()) == []


def test_client_of_messages_connects_to_a_server_at_its_first_call() -> None:
    """Making the client needs no server."""
    with ServiceBusClient.from_connection_string(SERVER) as client:
        assert not client.get_queue_sender("orders").closed


def test_clients_of_one_process_share_a_directory(tmp_path: Path) -> None:
    """A directory has one owner, so a client and an administration client of one connection string share it."""
    text = f"Endpoint=file://{tmp_path / 'bus'}"
    ServiceBusAdministrationClient.from_connection_string(text).create_queue("orders")
    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(b"kept"))
    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_receiver("orders") as receiver:
        assert [str(message) for message in receiver.receive_messages(max_wait_time=0)] == ["kept"]


def test_directory_closes_with_the_last_client(tmp_path: Path) -> None:
    """Closing earlier ones leaves it open, also when another spelling of the path opened it."""
    path = tmp_path / "bus"
    (tmp_path / "link").symlink_to(path)
    first = ServiceBusClient.from_connection_string(f"file://{path}")
    last = ServiceBusAdministrationClient.from_connection_string(f"file://{tmp_path / 'link'}")
    namespace = first._namespace
    assert last._transport.namespace_for("test") is namespace
    for _ in range(2):
        first.close()
        assert not namespace.closed
    last.create_queue("orders")
    sender = ServiceBusClient(namespace).get_queue_sender("orders")
    last.close()
    assert namespace.closed
    with pytest.raises(ValueError, match="closed"):
        sender.send_messages(ServiceBusMessage("late"))
    Namespace(path).close()
    with ServiceBusAdministrationClient.from_connection_string(f"file://{path}") as again:
        assert [queue.name for queue in again.list_queues()] == ["orders"]
        first.close()
        assert not again._transport.namespace_for("test").closed


def test_client_that_is_dropped_leaves_the_directory_to_its_handles(tmp_path: Path) -> None:
    """A client without a name must not take its sender's namespace away; it does not count as open either."""
    text = f"file://{tmp_path / 'bus'}"
    admin = ServiceBusAdministrationClient.from_connection_string(text)
    admin.create_queue("orders")
    sender = ServiceBusClient.from_connection_string(text).get_queue_sender("orders")
    namespace = admin._transport.namespace_for("test")
    gc.collect()
    sender.send_messages(ServiceBusMessage("sent"))
    admin.close()
    assert namespace.closed


def test_directory_closes_with_the_last_client_of_an_event_loop(tmp_path: Path) -> None:
    """The asynchronous clients count like the others."""
    text = f"file://{tmp_path / 'bus'}"

    async def use() -> Namespace:
        async with AsyncAdministrationClient.from_connection_string(text) as admin:
            await admin.create_queue("orders")
            async with AsyncClient.from_connection_string(text) as client, client.get_queue_sender("orders") as sender:
                await sender.send_messages(ServiceBusMessage("sent"))
            namespace = admin._client._transport.namespace_for("test")
            assert not namespace.closed
            return namespace

    assert asyncio.run(use()).closed


def test_directory_opens_and_closes_from_many_threads(tmp_path: Path) -> None:
    """No thread finds a namespace that another one closes."""
    text = f"file://{tmp_path / 'bus'}"
    ServiceBusAdministrationClient.from_connection_string(text).create_queue("orders")

    def send(number: int) -> None:
        with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage(str(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(64)))
    with ServiceBusAdministrationClient.from_connection_string(text) as admin:
        assert admin.get_queue_runtime_properties("orders").active_message_count == 64


def test_entity_path_limits_the_client() -> None:
    """A connection string for one entity opens no other, as in the SDK."""
    ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-four").create_queue("orders")
    with ServiceBusClient.from_connection_string("Endpoint=memory://parity-four;EntityPath=orders") as client:
        client.get_queue_sender("orders")
        with pytest.raises(ValueError, match="EntityPath"):
            client.get_queue_sender("other")
        with pytest.raises(ValueError, match="EntityPath"):
            client.get_queue_receiver("other")
