# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-servicebus SDK: sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver

    Take = Callable[[ServiceBusReceiver, int], list[ServiceBusReceivedMessage]]
    Send = Callable[..., None]


def text(message: ServiceBusReceivedMessage) -> str:
    """The body as text."""
    return b"".join(message.body).decode()


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """A queue that requires sessions."""
    return make_queue(requires_session=True)


def test_a_session_is_received_in_order(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """A receiver gets exactly the messages of its session, in order (B-200)."""
    for number in range(5):
        send(queue, f"a{number}", session_id="a")
        send(queue, f"b{number}", session_id="b")
    with client.get_queue_receiver(queue, session_id="b") as receiver:
        assert receiver.session is not None
        assert receiver.session.session_id == "b"
        messages = take(receiver, 5)
        assert [text(message) for message in messages] == [f"b{number}" for number in range(5)]
        for message in messages:
            receiver.complete_message(message)
        assert receiver.receive_messages(max_wait_time=1) == []


def test_next_available_sessions_are_those_with_messages(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """Accepting the next session returns each session once, then none (B-195, B-196)."""
    send(queue, "x", session_id="one")
    send(queue, "x", session_id="two")
    seen = set()
    for _ in range(2):
        with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            (message,) = take(receiver, 1)
            assert receiver.session is not None
            seen.add(receiver.session.session_id)
            receiver.complete_message(message)
    assert seen == {"one", "two"}
    with (
        pytest.raises(OperationTimeoutError),
        client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1) as receiver,
    ):
        receiver.receive_messages()


def test_a_session_has_one_receiver(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """A locked session cannot be accepted until it is released (B-194, B-205)."""
    send(queue, "x", session_id="s")
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        take(receiver, 1)
        with pytest.raises(SessionCannotBeLockedError), client.get_queue_receiver(queue, session_id="s") as second:
            second.receive_messages(max_wait_time=1)
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        (message,) = take(receiver, 1)
        receiver.complete_message(message)


def test_a_session_has_a_state_and_a_lock(client: ServiceBusClient, queue: str) -> None:
    """State is set, read and cleared; the lock is renewed (B-202, B-210, B-211)."""
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        session = receiver.session
        assert session is not None
        assert session.get_state() is None
        session.set_state(b"open")
        assert session.get_state() == b"open"
        before = session.locked_until_utc
        assert before is not None
        assert session.renew_lock() >= before
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        session = receiver.session
        assert session is not None
        assert session.get_state() == b"open"
        session.set_state(None)
        assert session.get_state() is None


def test_the_empty_session_is_a_session(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """The empty string is a valid session id (B-183)."""
    send(queue, "x", session_id="")
    with client.get_queue_receiver(queue, session_id="") as receiver:
        (message,) = take(receiver, 1)
        assert message.session_id == ""
        receiver.complete_message(message)


def test_a_session_that_expires_is_lost(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Send, take: Take
) -> None:
    """When the lock of a session expires, all calls of its receiver fail (B-203)."""
    queue = make_queue("short", requires_session=True, lock_duration=timedelta(seconds=5))
    send(queue, "x", session_id="s")
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        (message,) = take(receiver, 1)
        session = receiver.session
        assert session is not None
        receiver.receive_messages(max_wait_time=6)
        with pytest.raises(SessionLockLostError):
            session.get_state()
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        (message,) = take(receiver, 1)
        receiver.complete_message(message)


def test_the_auto_renewer_keeps_a_session(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Send, take: Take
) -> None:
    """A lock of five seconds that is renewed still holds after seven (B-202)."""
    queue = make_queue("short", requires_session=True, lock_duration=timedelta(seconds=5))
    send(queue, "x", session_id="s")
    with (
        client.get_queue_receiver(queue, session_id="s") as receiver,
        AutoLockRenewer(max_lock_renewal_duration=60) as renewer,
    ):
        assert receiver.session is not None
        renewer.register(receiver, receiver.session)
        (message,) = take(receiver, 1)
        assert receiver.receive_messages(max_wait_time=7) == []
        receiver.complete_message(message)


def test_messages_of_a_session_are_deferred_peeked_and_scheduled(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """Peeking and fetching deferred messages return only messages of the receiver's session (B-217, B-302)."""
    send(queue, "mine", session_id="s")
    send(queue, "other", session_id="t")
    with client.get_queue_sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("later", session_id="s"), datetime.now(UTC) + timedelta(hours=1))
    with client.get_queue_receiver(queue, session_id="s") as receiver:
        (message,) = take(receiver, 1)
        receiver.defer_message(message)
        peeked = receiver.peek_messages(10, sequence_number=1)
        assert {text(message): message.state for message in peeked} == {
            "mine": ServiceBusMessageState.DEFERRED,
            "later": ServiceBusMessageState.SCHEDULED,
        }
        (fetched,) = receiver.receive_deferred_messages(message.sequence_number or 0)
        receiver.complete_message(fetched)
        assert [text(message) for message in receiver.peek_messages(10, sequence_number=1)] == ["later"]


def test_receivers_and_queues_must_agree_on_sessions(
    client: ServiceBusClient, queue: str, make_queue: Callable[..., str]
) -> None:
    """A queue with sessions requires a session id, one without rejects it (B-187, B-188)."""
    plain = make_queue("plain")
    with pytest.raises(ServiceBusError), client.get_queue_receiver(queue) as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError), client.get_queue_receiver(plain, session_id="s") as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError), client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("without a session"))


def test_sessions_are_listed(client: ServiceBusClient, queue: str, send: Send) -> None:
    """Sessions with messages or a state are listed, over a connection without any other link (B-214)."""
    assert list(client.list_queue_sessions(queue)) == []
    for name in ("b", "a"):
        send(queue, "x", session_id=name)
    with client.get_queue_receiver(queue, session_id="c") as receiver:
        assert receiver.session is not None
        receiver.session.set_state(b"state")
    assert sorted(client.list_queue_sessions(queue)) == ["a", "b", "c"]
    before = datetime.now(UTC) - timedelta(hours=1)
    assert list(client.list_queue_sessions(queue, state_updated_after=before)) == ["c"]
