# SPDX-License-Identifier: Apache-2.0
"""AMQP over TLS and over a WebSocket, through the unmodified SDK: one port accepts all of them (B-407)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus import TransportType
from azure.servicebus.aio import ServiceBusClient as SdkAsyncClient
from azure.servicebus.exceptions import ServiceBusConnectionError

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

WAIT_SECONDS = 30


def without_flag(server: Server) -> str:
    """A connection string without the development flag, as for the service, which means TLS."""
    return server.connection_string.replace(";UseDevelopmentEmulator=true", "")


@pytest.fixture
def within_tls(server: Server, certificate: Path) -> dict[str, Any]:
    """Client options for the test server over TLS: its port is not the usual one.

    The SDK uses a custom address for a WebSocket by default, so the transport is set too.
    """
    return {"custom_endpoint_address": f"sb://localhost:{server.port}", "connection_verify": str(certificate)}


def test_a_message_is_sent_over_tls(
    server: Server, inside: ServiceBusAdministrationClient, within_tls: dict[str, Any]
) -> None:
    """The AMQP port accepts TLS, too."""
    inside.create_queue("q", enable_partitioning=True)
    with (
        SdkClient.from_connection_string(
            without_flag(server), transport_type=TransportType.Amqp, **within_tls
        ) as client,
        client.get_queue_sender("q") as sender,
        client.get_queue_receiver("q") as receiver,
    ):
        sender.send_messages(SdkMessage("within TLS"))
        (message,) = receiver.receive_messages(max_wait_time=WAIT_SECONDS)
        receiver.complete_message(message)
        assert str(message) == "within TLS"
    assert inside.get_queue_runtime_properties("q").active_message_count == 0


def test_a_client_that_does_not_trust_the_certificate_disconnects(
    server: Server, inside: ServiceBusAdministrationClient
) -> None:
    """The client does not trust the development certificate without its issuer."""
    inside.create_queue("q")
    address = f"sb://localhost:{server.port}"
    client = SdkClient.from_connection_string(
        without_flag(server), transport_type=TransportType.Amqp, custom_endpoint_address=address, retry_total=0
    )
    with pytest.raises(ServiceBusConnectionError, match="certificate"), client, client.get_queue_sender("q") as sender:
        sender.send_messages(SdkMessage("to nobody"))


def test_a_message_is_sent_over_a_websocket(
    server: Server, inside: ServiceBusAdministrationClient, within_tls: dict[str, Any]
) -> None:
    """The same port accepts a WebSocket over TLS."""
    inside.create_queue("q", enable_partitioning=True)

    async def send_and_receive() -> str:
        async with (
            SdkAsyncClient.from_connection_string(
                without_flag(server), transport_type=TransportType.AmqpOverWebsocket, **within_tls
            ) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
        ):
            await sender.send_messages(SdkMessage("within a WebSocket"))
            (message,) = await receiver.receive_messages(max_wait_time=WAIT_SECONDS)
            await receiver.complete_message(message)
            return str(message)

    assert asyncio.run(send_and_receive()) == "within a WebSocket"
    assert inside.get_queue_runtime_properties("q").active_message_count == 0
