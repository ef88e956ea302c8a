# SPDX-License-Identifier: Apache-2.0
"""Connection strings: their parts, rejected ones, and secrets, which no text shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.servicebus import parse_connection_string as parse_with_the_sdk
from oxbus import ServiceBusClient, ServiceBusMessage, parse_connection_string
from oxbus.exceptions import InvalidOperationError
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
        "Endpoint=file://host/dir",
        "Endpoint=ftp://host",
    ],
)
def test_malformed_string_is_a_value_error(text: str) -> None:
    """A malformed string never opens a guessed namespace."""
    with pytest.raises(ValueError, match=r"[Cc]onnection string"):
        parse_connection_string(text)


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
    admin._namespace.close()
    again = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-three")
    assert list(again.list_queues()) == []


@pytest.mark.parametrize("owner", [ServiceBusClient, ServiceBusAdministrationClient])
def test_unsupported_connection_string_is_rejected(
    owner: type[ServiceBusClient | ServiceBusAdministrationClient],
) -> None:
    """Servers are an InvalidOperationError that names the alternative."""
    with pytest.raises(InvalidOperationError) as raised:
        owner.from_connection_string(SERVER)
    assert raised.value.condition == "amqp:not-implemented"


def test_clients_of_one_process_share_a_directory(tmp_path: Path) -> None:
    """A directory has one owner, so a client and an administration client of one connection string share it."""
    text = f"Endpoint=file://{tmp_path / 'bus'}"
    ServiceBusAdministrationClient.from_connection_string(text).create_queue("orders")
    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(b"kept"))
    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_receiver("orders") as receiver:
        assert [str(message) for message in receiver.receive_messages(max_wait_time=0)] == ["kept"]


def test_entity_path_limits_the_client() -> None:
    """A connection string for one entity opens no other, as in the SDK."""
    ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://parity-four").create_queue("orders")
    with ServiceBusClient.from_connection_string("Endpoint=memory://parity-four;EntityPath=orders") as client:
        client.get_queue_sender("orders")
        with pytest.raises(ValueError, match="EntityPath"):
            client.get_queue_sender("other")
        with pytest.raises(ValueError, match="EntityPath"):
            client.get_queue_receiver("other")
