# SPDX-License-Identifier: Apache-2.0
"""Addresses, credentials, transports, faults and processes of the client for messages over a network."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import oxbus.aio
import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from http_proxy import Proxy
from oxbus import ServiceBusClient, ServiceBusMessage, TransportType
from oxbus.exceptions import (
    ForkedProcessError,
    InvalidOperationError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
)
from signatures import KEY, KEY_NAME, connection_string, token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server


class Token(NamedTuple):
    """A token as azure-identity returns it."""

    token: str
    expires_on: float


class Credential:
    """Gives signatures as tokens, and counts them."""

    def __init__(self, seconds: float = 3600) -> None:
        self.seconds = seconds
        self.count = 0

    def get_token(self, *_scopes: str) -> Token:
        """Return a token."""
        self.count += 1
        return Token(token("sb://localhost", KEY_NAME, KEY), time.time() + self.seconds)


class AsyncCredential(Credential):
    """The same for asyncio."""

    async def get_token(self, *scopes: str) -> Token:  # type: ignore[override] # as in azure.identity.aio
        """Return a token."""
        await asyncio.sleep(0)
        return super().get_token(*scopes)


@pytest.fixture(autouse=True)
def queue(admin: ServiceBusAdministrationClient) -> str:
    """A queue of the server."""
    return admin.create_queue("orders").name


def goes_through(client: ServiceBusClient) -> None:
    """Send, receive and complete one message."""
    with client.get_queue_sender("orders") as sender, client.get_queue_receiver("orders") as receiver:
        sender.send_messages(ServiceBusMessage("over the network"))
        (message,) = receiver.receive_messages(max_wait_time=30)
        assert str(message) == "over the network"
        receiver.complete_message(message)
        assert receiver.receive_messages(max_wait_time=0) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: (KEY_NAME, KEY),
        lambda: token("sb://localhost", KEY_NAME, KEY),
        lambda: AzureNamedKeyCredential(KEY_NAME, KEY),
        lambda: AzureSasCredential(token("sb://localhost", KEY_NAME, KEY)),
        Credential,
    ],
    ids=["pair", "text", "named key", "signature", "get_token"],
)
def test_every_credential_over_tls(server: Server, certificate: Path, make: Callable[[], Any]) -> None:
    """A host and a credential, as with the SDK, and the issuer of the certificate."""
    with ServiceBusClient(f"localhost:{server.port}", make(), connection_verify=certificate) as client:
        goes_through(client)


@pytest.mark.parametrize("make", [Credential, AsyncCredential])
def test_credential_of_asyncio(server: Server, certificate: Path, make: Callable[[], Any]) -> None:
    """An awaitable `get_token` runs in the event loop in which the client was made."""

    async def main() -> None:
        host = f"localhost:{server.port}"
        async with (
            oxbus.aio.ServiceBusClient(host, make(), connection_verify=certificate) as client,
            client.get_queue_sender("orders") as sender,
            client.get_queue_receiver("orders") as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("x"))
            (message,) = await receiver.receive_messages(max_wait_time=30)
            await receiver.complete_message(message)

    asyncio.run(main())


def test_token_is_renewed_before_its_end(server: Server, certificate: Path) -> None:
    """A token that ends soon is asked for again while the client is idle."""
    credential = Credential(seconds=0.5)
    with ServiceBusClient(f"localhost:{server.port}", credential, connection_verify=certificate) as client:
        goes_through(client)
        used = credential.count
        deadline = time.monotonic() + 30
        while credential.count < used + 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert credential.count >= used + 2


def test_missing_certificates_are_named(tmp_path: Path) -> None:
    """It was a ValueError that named `ca_file`, an option of bulk clients."""
    with pytest.raises(FileNotFoundError, match=r"connection_verify.*none\.pem"):
        ServiceBusClient("localhost", (KEY_NAME, KEY), connection_verify=tmp_path / "none.pem")


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_websocket(server: Server, certificate: Path, tls: bool) -> None:
    """AMQP over WebSocket, as firewalls allow it."""
    if tls:
        options: dict[str, Any] = {"connection_verify": certificate, "transport_type": TransportType.AmqpOverWebsocket}
        client = ServiceBusClient(f"localhost:{server.port}", (KEY_NAME, KEY), **options)
    else:
        text = server.connection_string
        client = ServiceBusClient.from_connection_string(text, transport_type="amqpoverwebsocket")
    with client:
        goes_through(client)


def test_proxy(server: Server) -> None:
    """An HTTP proxy tunnels the connection, which is a WebSocket then."""
    with Proxy() as proxy:
        http_proxy = {"proxy_hostname": "127.0.0.1", "proxy_port": proxy.port}
        with ServiceBusClient.from_connection_string(server.connection_string, http_proxy=http_proxy) as client:
            goes_through(client)
        assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{server.port} ")
        assert "websocket" in proxy.heads[0].lower() or len(proxy.heads) == 1


def test_custom_endpoint(server: Server) -> None:
    """The client connects there, and its tokens name the namespace."""
    text = connection_string(1)
    address = f"sb://127.0.0.1:{server.port}"
    with ServiceBusClient.from_connection_string(text, custom_endpoint_address=address) as client:
        goes_through(client)


def test_entity_path(server: Server) -> None:
    """It limits the client."""
    text = f"{server.connection_string};EntityPath=orders"
    with ServiceBusClient.from_connection_string(text) as client:
        goes_through(client)
        with pytest.raises(ValueError, match="another entity"):
            client.get_queue_sender("others")


def test_wrong_key_unknown_entity_and_absent_server(server: Server) -> None:
    """Each is an error of its own, at the first call."""
    wrong = server.connection_string.replace(KEY, "other")
    with ServiceBusClient.from_connection_string(wrong) as client, pytest.raises(ServiceBusAuthenticationError):
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        for call in (
            lambda: client.get_queue_sender("nobody").send_messages(ServiceBusMessage("x")),
            lambda: client.get_queue_receiver("nobody").receive_messages(max_wait_time=0),
            lambda: client.get_queue_receiver("nobody").__enter__(),
        ):
            with pytest.raises(MessagingEntityNotFoundError):
                call()
    absent = connection_string(1)
    with (
        ServiceBusClient.from_connection_string(absent, retry_total=0) as client,
        pytest.raises(ServiceBusConnectionError, match="cannot be reached"),
    ):
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"retry_total": 3, "retry_backoff_factor": 0.1, "retry_mode": "fixed"}, 0.3),
        ({"retry_total": 2, "retry_backoff_factor": 0.1, "retry_mode": "exponential"}, 0.3),
    ],
)
def test_retry_options_have_an_effect(options: dict[str, Any], seconds: float) -> None:
    """A call waits between its tries; it takes at least as long as its pauses."""
    with ServiceBusClient.from_connection_string(connection_string(1), **options) as client:
        began = time.monotonic()
        with pytest.raises(ServiceBusConnectionError):
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        assert time.monotonic() - began >= seconds


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"retry_total": -1}, ValueError, "retry options must not be negative"),
        ({"retry_mode": "linear"}, ValueError, "retry_mode must be"),
        ({"transport_type": "pigeon"}, ValueError, "not a valid TransportType"),
        ({"try_timeout": 0}, ValueError, "try_timeout must be more than 0"),
        ({"socket_timeout": 0}, ValueError, "socket_timeout must be more than 0"),
        ({"http_proxy": {"proxy_port": 1}}, ValueError, "proxy_hostname"),
        ({"custom_endpoint_address": "a b"}, ValueError, "custom_endpoint_address must be"),
        ({"retries": 1}, TypeError, "did you mean|it takes"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], text: str) -> None:
    """Refused when the client is made."""
    with pytest.raises(error, match=text):
        ServiceBusClient.from_connection_string(connection_string(1), **options)


@pytest.mark.parametrize("credential", [None, 7, ("name",), object()])
def test_other_credentials_are_refused(credential: Any) -> None:
    """When the client is made, with the alternatives."""
    with pytest.raises(TypeError, match="credential"):
        ServiceBusClient("bus.example.net", credential)


def test_what_needs_a_namespace_of_this_process(server: Server) -> None:
    """The error names the option."""
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with pytest.raises(InvalidOperationError, match="partition_id"):
            client.get_queue_receiver("orders", partition_id=1).receive_messages(max_wait_time=0)
        with pytest.raises(InvalidOperationError, match="lock_policy"):
            client.get_queue_receiver("orders", lock_policy="fresh").receive_messages(max_wait_time=0)
        with pytest.raises(InvalidOperationError, match="durab"):
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"), durability="fsync")


def test_abandon_with_a_delay(server: Server) -> None:
    """The message is not handed out before; it is shown as scheduled."""
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x"))
        (message,) = receiver.receive_messages(max_wait_time=30)
        receiver.abandon_message(message, delay=timedelta(milliseconds=500))
        assert receiver.receive_messages(max_wait_time=0) == []
        (again,) = receiver.receive_messages(max_wait_time=30)
        assert again.delivery_count == 1
        receiver.complete_message(again)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_told_so(server: Server) -> None:
    """Its parent's client has no thread there; a new client works after exec, and the error says so."""
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        goes_through(client)
        process = os.fork()
        if process == 0:
            try:
                client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
            except ForkedProcessError:
                os._exit(0)
            except BaseException:  # noqa: BLE001 (the parent reads the exit code)
                os._exit(2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        goes_through(client)


PROGRAM = """
import sys, threading, oxbus
client = oxbus.ServiceBusClient.from_connection_string(sys.argv[1])
receiver = client.get_queue_receiver("orders")
thread = threading.Thread(target=receiver.receive_messages, daemon=True)
thread.start()
client.get_queue_sender("orders").schedule_messages
receiver.peek_messages()
print("leaves")
"""


def test_a_process_ends_while_a_thread_waits(server: Server) -> None:
    """An open client and a waiting daemon thread do not keep a process alive, nor crash it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, server.connection_string],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaves\n", "")
