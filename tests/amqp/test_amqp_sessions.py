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
def trips(inside: ServiceBusAdministrationClient, entity_options: dict[str, Any]) -> str:
    """A queue that requires sessions."""
    inside.create_queue("trips", requires_session=True, **entity_options)
    return "trips"


def send(client: ServiceBusClient, queue: str, session_id: str, *bodies: str) -> None:
    """Send messages of a session."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, session_id=session_id) for body in bodies])


@pytest.mark.parametrize("session_id", ["a", ""])
def test_a_session_is_received_in_order(client: ServiceBusClient, trips: str, session_id: str) -> None:
    """The messages of a session arrive in order; the empty string is a valid session id (B-192).

    The answer has the time until which the session is locked (B-423).
    """
    send(client, trips, session_id, "1", "2", "3")
    send(client, trips, "other", "x")
    got: list[str] = []
    with client.get_queue_receiver(trips, session_id=session_id) as receiver:
        assert receiver.session.session_id == session_id
        assert receiver.session.locked_until_utc is not None
        while len(got) < 3:
            for message in receiver.receive_messages(3, max_wait_time=10):
                assert message.session_id == session_id
                got.append(str(message))
                receiver.complete_message(message)
    assert got == ["1", "2", "3"]


def test_the_next_session_is_one_with_messages(client: ServiceBusClient, trips: str) -> None:
    """A client that names no session gets an available one (B-195, B-424)."""
    send(client, trips, "b", "1")
    with client.get_queue_receiver(trips, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert receiver.session.session_id == "b"
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(message)


def test_waiting_for_a_session_ends_with_a_timeout(client: ServiceBusClient, trips: str) -> None:
    """Without an available session the attach waits, then fails (B-196)."""
    with (
        pytest.raises(OperationTimeoutError),
        client.get_queue_receiver(trips, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)


def test_a_held_session_cannot_be_accepted_until_it_is_closed(client: ServiceBusClient, trips: str) -> None:
    """Another client is rejected while the session is locked (B-194); closing releases it (B-205)."""
    send(client, trips, "a", "1")
    with client.get_queue_receiver(trips, session_id="a") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        with pytest.raises(SessionCannotBeLockedError), client.get_queue_receiver(trips, session_id="a"):
            pass
    with client.get_queue_receiver(trips, session_id="a") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert str(message) == "1"
        receiver.complete_message(message)


def test_receivers_and_queues_must_both_use_sessions(client: ServiceBusClient, trips: str, queue: str) -> None:
    """A queue with sessions rejects a receiver without, and a queue without rejects one with (B-187, B-188)."""
    with pytest.raises(ServiceBusError), client.get_queue_receiver(trips) as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError), client.get_queue_receiver(queue, session_id="a") as receiver:
        receiver.receive_messages(max_wait_time=1)


def test_a_queue_with_sessions_rejects_a_message_without(client: ServiceBusClient, trips: str) -> None:
    """A message without a session id is rejected."""
    with client.get_queue_sender(trips) as sender, pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("x"))
