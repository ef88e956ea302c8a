# SPDX-License-Identifier: Apache-2.0
"""Connections of the unmodified SDK: rights, expiring tokens and server restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError
from oxbus.management import AccessRights, AuthorizationRule
from oxbus.server import serve
from signatures import token

if TYPE_CHECKING:
    from oxbus import Namespace
    from oxbus.server import Server

KEY = "a key for tests, forty letters long ....."


def test_a_wrong_key_is_refused(server: Server, queue: str) -> None:
    """A token signed with another key is invalid, and the client can read the error (B-414, B-415)."""
    wrong = server.connection_string.replace("SAS_KEY_VALUE", "SAS_KEY_WRONG")
    with (
        pytest.raises(ServiceBusAuthenticationError),
        SdkClient.from_connection_string(wrong, retry_total=0) as another,
        another.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_a_key_to_send_does_not_receive(bus: Namespace, queue: str) -> None:
    """A link has the rights of its key; without the needed right the attach fails (B-416)."""
    rule = AuthorizationRule(key_name="sends", primary_key=KEY, rights=[AccessRights.SEND])
    with serve(bus, rules=[rule]) as served:
        text = f"Endpoint=sb://127.0.0.1:{served.port};SharedAccessKeyName=sends;SharedAccessKey={KEY}"
        with SdkClient.from_connection_string(f"{text};UseDevelopmentEmulator=true", retry_total=0) as another:
            with another.get_queue_sender(queue) as sender:
                sender.send_messages(ServiceBusMessage("x"))
            with pytest.raises(ServiceBusAuthorizationError), another.get_queue_receiver(queue) as receiver:
                receiver.receive_messages(max_wait_time=1)


def test_a_link_ends_with_its_token(server: Server, queue: str) -> None:
    """When a token expires, the links that it authorized are detached (B-417)."""
    endpoint = f"sb://127.0.0.1:{server.port}"
    signed = token(f"{endpoint}/{queue}", seconds=3)
    text = f"Endpoint={endpoint};SharedAccessSignature={signed};UseDevelopmentEmulator=true"
    with (
        SdkClient.from_connection_string(text, retry_total=0) as another,
        another.get_queue_receiver(queue) as receiver,
        pytest.raises(ServiceBusError),
    ):
        receiver.receive_messages(max_wait_time=60)


def test_a_sender_continues_after_a_server_restart(bus: Namespace, queue: str) -> None:
    """A client reconnects automatically; messages accepted before still exist."""
    with serve(bus) as served:
        port = served.port
        another = SdkClient.from_connection_string(served.connection_string)
        sender = another.get_queue_sender(queue)
        sender.send_messages(ServiceBusMessage("before"))
    with serve(bus, amqp_port=port), another, sender:
        sender.send_messages(ServiceBusMessage("behind"))
        got: list[str] = []
        with another.get_queue_receiver(queue) as receiver:
            while len(got) < 2:
                for message in receiver.receive_messages(2, max_wait_time=10):
                    got.append(str(message))
                    receiver.complete_message(message)
    assert sorted(got) == ["before", "behind"]
