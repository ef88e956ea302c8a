# SPDX-License-Identifier: Apache-2.0
"""Errors of the unmodified azure-servicebus SDK: a missing entity and a missing right have different texts.

The error of a rejected token has its status and text in `inner_exception`. The SDK raises
`ServiceBusAuthenticationError` for a missing queue, too, as it does with the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
from oxbus.management import AuthorizationRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure.servicebus import ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

KEY_NAME, KEY = "RootManageSharedAccessKey", "SAS_KEY_VALUE"
WRONG_KEY = "a key of another client"
LISTENS = ("listener", "a key that may listen")
MISSING = "The messaging entity '{}' could not be found."


@pytest.fixture
def connect(server: Server) -> Callable[..., ServiceBusClient]:
    """A client with another key name and key, without retries."""

    def connect(name: str = KEY_NAME, key: str = KEY) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(as_other(server, name, key), retry_total=0)

    return connect


def as_other(server: Server, name: str, key: str) -> str:
    """The connection string with another key name and key."""
    return server.connection_string.replace(KEY_NAME, name).replace(KEY, key)


def send(client: ServiceBusClient, queue: str) -> None:
    """Send a message."""
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def receive(client: ServiceBusClient, queue: str) -> None:
    """Receive without expecting a message."""
    with client, client.get_queue_receiver(queue) as receiver:
        receiver.receive_messages(max_wait_time=1)


def peek(client: ServiceBusClient, queue: str) -> None:
    """Browse, over `$management`."""
    with client, client.get_queue_receiver(queue) as receiver:
        receiver.peek_messages()


@pytest.mark.parametrize("use", [send, receive, peek])
@pytest.mark.parametrize(
    ("who", "queue", "status", "texts"),
    [
        ((KEY_NAME, WRONG_KEY), "Orders", 401, ["InvalidSignature", "SharedAccessKey,", "`Orders`", f"`{KEY_NAME}`"]),
        ((KEY_NAME, WRONG_KEY), "nowhere", 401, ["InvalidSignature", "SharedAccessKey,", "`nowhere`", f"`{KEY_NAME}`"]),
        (("nobody", KEY), "Orders", 401, ["InvalidSignature", "SharedAccessKeyName", "`Orders`", "`nobody`"]),
        ((KEY_NAME, KEY), "nowhere", 404, [MISSING.format("nowhere")]),
    ],
    ids=["key", "key and queue", "key name", "queue"],
)
def test_a_token_is_refused_for_its_reason(
    connect: Callable[..., ServiceBusClient],
    inside: ServiceBusAdministrationClient,
    use: Callable[[ServiceBusClient, str], None],
    who: tuple[str, str],
    queue: str,
    status: int,
    texts: list[str],
) -> None:
    """A wrong key, an unknown key name, a missing queue: status and text distinguish them (B-419, B-434)."""
    inside.create_queue("orders")
    with pytest.raises(ServiceBusAuthenticationError) as caught:
        use(connect(*who), queue)
    refused: Any = caught.value.inner_exception
    assert refused.status_code == status
    shown = str(refused)
    assert [text for text in texts if text not in shown] == [], shown
    assert not any(key in shown for key in (KEY, WRONG_KEY))


def test_a_right_that_is_missing_is_named(
    connect: Callable[..., ServiceBusClient], inside: ServiceBusAdministrationClient
) -> None:
    """The error names the entity and the key; calls that the key allows work (B-416, B-434)."""
    name, key = LISTENS
    inside.create_queue(
        "orders", authorization_rules=[AuthorizationRule(key_name=name, primary_key=key, rights=["Listen"])]
    )
    receive(connect(name, key), "orders")
    with pytest.raises(ServiceBusAuthorizationError, match=r"'Send' claim.*entity=`orders`, key name=`listener`"):
        send(connect(name, key), "orders")


def test_a_missing_subscription_is_not_found(
    connect: Callable[..., ServiceBusClient], inside: ServiceBusAdministrationClient
) -> None:
    """The error comes at the attach of a link, and from the management of the subscription (B-419, B-437)."""
    inside.create_topic("news")

    def receive(receiver: ServiceBusReceiver) -> object:
        return receiver.receive_messages(max_wait_time=1)

    def browse(receiver: ServiceBusReceiver) -> object:
        return receiver.peek_messages()

    for use in (receive, browse):
        with (
            pytest.raises(MessagingEntityNotFoundError, match=MISSING.format("news/Subscriptions/nobody")),
            connect() as client,
            client.get_subscription_receiver("news", "nobody") as receiver,
        ):
            use(receiver)


def test_a_queue_that_is_deleted_is_missing(
    connect: Callable[..., ServiceBusClient], inside: ServiceBusAdministrationClient
) -> None:
    """The next send over an open link fails with the same text (B-019)."""
    inside.create_queue("orders")
    with connect() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("x"))
        inside.delete_queue("orders")
        with pytest.raises(ServiceBusError, match=MISSING.format("orders")):
            sender.send_messages(ServiceBusMessage("x"))


def test_the_administration_client_distinguishes_them(
    server: Server, certificate: Path, inside: ServiceBusAdministrationClient
) -> None:
    """By the exception classes and by the texts (B-459, B-464)."""
    inside.create_queue("orders")

    def admin(name: str, key: str) -> SdkAdministrationClient:
        return SdkAdministrationClient.from_connection_string(
            as_other(server, name, key), connection_verify=str(certificate), retry_total=0
        )

    with admin(KEY_NAME, KEY) as client:
        for call in (client.get_queue, client.get_topic, client.delete_queue, client.get_queue_runtime_properties):
            with pytest.raises(ResourceNotFoundError, match=MISSING.format("nowhere")):
                call("nowhere")
    for who, word in (((KEY_NAME, WRONG_KEY), "SharedAccessKey,"), (("nobody", KEY), "SharedAccessKeyName")):
        with (
            admin(*who) as client,
            pytest.raises(ClientAuthenticationError, match=f"{word}.*entity=`orders`, key name=`{who[0]}`") as caught,
        ):
            client.get_queue("orders")
        assert not any(key in str(caught.value) for key in (KEY, WRONG_KEY))
