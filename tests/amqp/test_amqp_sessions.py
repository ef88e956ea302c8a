# SPDX-License-Identifier: Apache-2.0
"""Sessions over AMQP with the unmodified SDK (B-183 … B-206)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, SessionCannotBeLockedError

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient


@pytest.fixture
def trips(bus_admin: ServiceBusAdministrationClient, entity_options: dict[str, Any]) -> str:
    """A queue that is received by session."""
    bus_admin.create_queue("trips", requires_session=True, **entity_options)
    return "trips"


def send(client: ServiceBusClient, queue: str, session_id: str, *bodies: str) -> None:
    """Send messages of a session."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, session_id=session_id) for body in bodies])


@pytest.mark.parametrize("session_id", ["a", ""])
def test_a_session_is_received_in_order(sdk_client: ServiceBusClient, trips: str, session_id: str) -> None:
    """The messages of a session come in their order; the empty text is a session, too.

    The answer says until when it is locked (B-423).
    """
    send(sdk_client, trips, session_id, "1", "2", "3")
    send(sdk_client, trips, "other", "x")
    got: list[str] = []
    with sdk_client.get_queue_receiver(trips, session_id=session_id) as receiver:
        assert receiver.session.session_id == session_id
        assert receiver.session.locked_until_utc is not None
        while len(got) < 3:
            for message in receiver.receive_messages(3, max_wait_time=10):
                assert message.session_id == session_id
                got.append(str(message))
                receiver.complete_message(message)
    assert got == ["1", "2", "3"]


def test_the_next_session_is_one_with_messages(sdk_client: ServiceBusClient, trips: str) -> None:
    """A client that names no session gets one that waits (B-195, B-424)."""
    send(sdk_client, trips, "b", "1")
    with sdk_client.get_queue_receiver(trips, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert receiver.session.session_id == "b"
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(message)


def test_waiting_for_a_session_ends_with_a_timeout(sdk_client: ServiceBusClient, trips: str) -> None:
    """Without a session the attach is held, then refused (B-196)."""
    with (
        pytest.raises(OperationTimeoutError),
        sdk_client.get_queue_receiver(trips, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)


def test_a_held_session_cannot_be_accepted_until_it_is_closed(sdk_client: ServiceBusClient, trips: str) -> None:
    """Another client is refused while the session is held (B-194); closing gives it back (B-205)."""
    send(sdk_client, trips, "a", "1")
    with sdk_client.get_queue_receiver(trips, session_id="a") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        with pytest.raises(SessionCannotBeLockedError), sdk_client.get_queue_receiver(trips, session_id="a"):
            pass
    with sdk_client.get_queue_receiver(trips, session_id="a") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert str(message) == "1"
        receiver.complete_message(message)


def test_sessions_are_needed_where_they_are_and_nowhere_else(
    sdk_client: ServiceBusClient, trips: str, orders: str
) -> None:
    """A receiver without a session is refused there, one with a session elsewhere (B-187, B-188)."""
    with pytest.raises(ServiceBusError), sdk_client.get_queue_receiver(trips) as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError), sdk_client.get_queue_receiver(orders, session_id="a") as receiver:
        receiver.receive_messages(max_wait_time=1)


def test_a_message_needs_a_session_where_they_are(sdk_client: ServiceBusClient, trips: str) -> None:
    """A message without a session id is refused."""
    with sdk_client.get_queue_sender(trips) as sender, pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("x"))
