# SPDX-License-Identifier: Apache-2.0
"""Session locks: release, expiry, renewal, loss (B-181 to B-209)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION
from oxbus.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    MessageNotFoundError,
    OperationTimeoutError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from session_receiving import LOCK, PAST_THE_LOCK, session_of, take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.testing import ManualClock


def test_close_releases_without_counting_a_delivery(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """Close releases the session at once; unsettled messages return in order (B-176, B-205)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    messages = take(receiver, 2)
    receiver.complete_message(messages[0])
    receiver.close()
    again = take(accept())
    assert [(str(message), message.delivery_count) for message in again] == [("2", 0), ("3", 0)]


def test_settled_after_close_is_refused(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """A closed receiver cannot settle, so it cannot touch the next holder's messages (B-204, B-205)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        receiver.complete_message(message)
    with pytest.raises(ValueError, match="closed"):
        receiver.receive_messages()
    other = accept("a")
    with pytest.raises((MessageLockLostError, SessionLockLostError)):
        other.complete_message(message)
    assert texts(take(other)) == ["1"]


def test_expired_lock_counts_a_delivery(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """Expiry of the lock raises the delivery count of received messages only (B-206)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    take(receiver, 2)
    clock.advance(PAST_THE_LOCK)
    again = take(accept("a"))
    assert [(str(message), message.delivery_count) for message in again] == [("1", 1), ("2", 1), ("3", 0)]


def test_close_after_the_lock_expired_counts_a_delivery(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """A lost session cannot be released, so the delivery counts (B-206)."""
    send("a", "1")
    receiver = accept("a")
    take(receiver)
    clock.advance(PAST_THE_LOCK)
    receiver.close()
    (again,) = take(accept())
    assert again.delivery_count == 1


def test_expired_locks_lead_to_the_dead_letter_queue(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None], clock: ManualClock
) -> None:
    """A session lost as often as the delivery limit dead-letters its received messages (B-178, B-206)."""
    make_queue("strict", requires_session=True, max_delivery_count=2)
    send("a", "bad", "good", queue_name="strict")
    for _ in range(2):
        receiver = client.get_queue_receiver("strict", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
        assert texts(take(receiver, 1)) == ["bad"]
        clock.advance(PAST_THE_LOCK)
    with client.get_queue_receiver("strict", session_id="a", max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["good"]
    with client.get_queue_receiver("strict", sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.dead_letter_reason) == ("bad", "MaxDeliveryCountExceeded")


def test_messages_have_no_lock_of_their_own(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """The session's lock covers its messages: they show no lock end and cannot be renewed (B-156, B-200, B-202)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    assert message.locked_until_utc is None
    with pytest.raises(TypeError, match="session"):
        receiver.renew_message_lock(message)
    receiver.complete_message(message)


def test_renewing_a_session_extends_its_message_locks(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """Renewal locks the session and its received messages for one lock duration from now (B-202)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    session = session_of(receiver)
    for _ in range(5):
        clock.advance(50)
        assert session.renew_lock() == session.locked_until_utc == clock.now() + LOCK
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    receiver.complete_message(message)


def test_lock_duration_comes_from_the_queue(
    client: ServiceBusClient, make_queue: Callable[..., str], clock: ManualClock
) -> None:
    """The session is locked for the lock duration of the queue (B-201)."""
    name = make_queue("quick", requires_session=True, lock_duration=timedelta(seconds=5))
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        assert session_of(receiver).locked_until_utc == clock.now() + timedelta(seconds=5)
        clock.advance(5)
        with client.get_queue_receiver(name, session_id="a", max_wait_time=0):
            pass


def test_lost_session(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock) -> None:
    """Receive, settle, renew and state calls fail with session-lock-lost, even if no other accepts it (B-203)."""
    send("a", "1", "2", "3", "4", "5", "6")
    receiver = accept("a")
    messages = take(receiver, 5)
    session = session_of(receiver)
    clock.advance(PAST_THE_LOCK)
    for _ in range(2):
        calls: list[Callable[[], object]] = [
            lambda: receiver.receive_messages(max_wait_time=0),
            lambda: receiver.receive_messages(max_wait_time=5),
            lambda: receiver.complete_message(messages[0]),
            lambda: receiver.abandon_message(messages[1]),
            lambda: receiver.defer_message(messages[2]),
            lambda: receiver.dead_letter_message(messages[3]),
            lambda: receiver.complete_messages(messages),
            lambda: receiver.receive_deferred_messages(1),
            session.renew_lock,
            session.get_state,
            lambda: session.set_state(b"stale"),
        ]
        for call in calls:
            with pytest.raises(SessionLockLostError) as refusal:
                call()
            assert refusal.value.condition == "com.microsoft:session-lock-lost"
        other = accept("a")
        assert session_of(other).get_state() is None
        assert len(take(other)) == 6
        other.close()


def test_a_waiting_receive_fails_when_the_lock_is_lost(
    accept: Callable[..., ServiceBusReceiver], clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A holder that waits for a message gets an error when its lock expires (B-203)."""
    receiver = accept("a")
    waiting = in_background(receiver.receive_messages, max_wait_time=60)
    time.sleep(0.05)
    clock.advance(PAST_THE_LOCK)
    with pytest.raises(SessionLockLostError):
        waiting.result()


def test_message_of_another_session_cannot_be_settled(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A holder settles only messages of its session (B-200)."""
    send("a", "a1")
    send("b", "b1")
    of_a, of_b = accept("a"), accept("b")
    (message,) = take(of_a)
    take(of_b)
    for settle in (of_b.complete_message, of_b.abandon_message, of_b.defer_message, of_b.dead_letter_message):
        with pytest.raises(MessageLockLostError):
            settle(message)
    with pytest.raises(MessageLockLostError):
        of_b.complete_messages([message])
    of_a.complete_message(message)


def test_deferred_message_belongs_to_its_session(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """Only the holder of the session can fetch its deferred messages, under the session's lock (B-276, B-278)."""
    send("a", "1", "2")
    receiver = accept("a")
    numbers = [message.sequence_number for message in take(receiver)]
    for message in receiver.peek_messages(10):
        assert message.session_id == "a"
    receiver.close()
    receiver = accept("a")
    for message in take(receiver):
        receiver.defer_message(message)
    with pytest.raises((MessageNotFoundError, InvalidOperationError)):
        accept("b").receive_deferred_messages(numbers)
    first, second = receiver.receive_deferred_messages(numbers)
    assert (texts([first, second]), first.locked_until_utc) == (["1", "2"], None)
    clock.advance(50)
    session_of(receiver).renew_lock()
    clock.advance(50)
    receiver.complete_message(first)
    # Released with the session, it is deferred again.
    receiver.close()
    receiver = accept("a")
    (second,) = receiver.receive_deferred_messages(numbers[1])
    receiver.complete_message(second)


def test_deferred_message_of_a_lost_session_stays_deferred(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """When the session's lock expires, a fetched message can be fetched again (B-206, B-276)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    receiver.defer_message(message)
    receiver.receive_deferred_messages(message.sequence_number)
    clock.advance(PAST_THE_LOCK)
    with pytest.raises(OperationTimeoutError):
        accept()
    other = accept("a")
    (fetched,) = other.receive_deferred_messages(message.sequence_number)
    other.complete_message(fetched)
