# SPDX-License-Identifier: Apache-2.0
"""Message locks: token, end, renewal, expiry (B-150 to B-161, R-09)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

LOCK = timedelta(minutes=1)


@pytest.fixture
def message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> ServiceBusReceivedMessage:
    """One message, locked by `receiver`."""
    sender.send_messages(ServiceBusMessage(b"x"))
    return receive_one(receiver)


def test_token_is_a_uuid_of_its_own(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Every lock has its own 16-byte token, also for the same message (B-150)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(50)])
    tokens = []
    for _ in range(3):
        messages = drain(receiver)
        tokens += [message.lock_token for message in messages]
        receiver.abandon_messages(messages)
    assert all(isinstance(token, UUID) for token in tokens)
    assert len(set(tokens)) == 150


def test_lock_ends_one_lock_duration_later(message: ServiceBusReceivedMessage, clock: ManualClock) -> None:
    """`locked_until_utc` is the time of the receive plus the queue's lock duration, a minute by default (B-151)."""
    assert message.locked_until_utc == clock.now() + LOCK


@pytest.mark.parametrize("lock_duration", [timedelta(seconds=0.5), timedelta(seconds=5), timedelta(hours=1)], ids=str)
def test_queue_sets_the_lock_duration(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    lock_duration: timedelta,
) -> None:
    """The lock lasts exactly the lock duration of the queue (B-152)."""
    queue_name = make_queue(lock_duration=lock_duration)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        message = receive_one(receiver)
        assert message.locked_until_utc == clock.now() + lock_duration
        clock.advance(lock_duration.total_seconds() - 0.1)
        assert receiver.receive_messages(max_wait_time=0) == []
        clock.advance(0.2)
        receiver.complete_message(receive_one(receiver))


def test_new_lock_duration_holds_for_new_locks(
    message: ServiceBusReceivedMessage,
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A lock lasts the duration that the queue has when the message is received (B-152)."""
    queue = admin.get_queue(queue_name)
    queue.lock_duration = timedelta(minutes=3)
    admin.update_queue(queue)
    sender.send_messages(ServiceBusMessage(b"y"))
    assert receive_one(receiver).locked_until_utc == clock.now() + timedelta(minutes=3)
    assert message.locked_until_utc == clock.now() + LOCK
    assert receiver.renew_message_lock(message) == clock.now() + timedelta(minutes=3)


def test_locked_message_is_skipped(
    message: ServiceBusReceivedMessage,
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Other receivers skip a locked message and get the next one (B-153)."""
    sender.send_messages(ServiceBusMessage(b"next"))
    with client.get_queue_receiver(queue_name) as other:
        numbers = [found.sequence_number for found in drain(other)]
    assert len(numbers) == 1
    assert message.sequence_number not in numbers


def test_renewed_lock_starts_at_the_renewal(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A renewal sets the lock end to now plus the lock duration, on the message too, and returns it (B-154)."""
    clock.advance(40)
    assert receiver.renew_message_lock(message) == clock.now() + LOCK
    assert message.locked_until_utc == clock.now() + LOCK
    clock.advance(50)
    assert receiver.receive_messages(max_wait_time=0) == []
    receiver.complete_message(message)


def test_renewals_are_unlimited(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A lock may be renewed any number of times, and its token stays valid (B-152)."""
    token = message.lock_token
    for _ in range(200):
        clock.advance(50)
        receiver.renew_message_lock(message)
    assert message.lock_token == token
    assert receiver.receive_messages(max_wait_time=0) == []
    receiver.complete_message(message)


def test_renewing_after_the_end_is_lock_lost(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A lock that ended cannot be renewed (B-155)."""
    clock.advance(60.1)
    with pytest.raises(MessageLockLostError) as lost:
        receiver.renew_message_lock(message)
    assert lost.value.condition == "com.microsoft:message-lock-lost"
    assert not lost.value.is_transient


def test_renewing_a_message_locked_by_another_is_lock_lost(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The former holder can neither renew nor settle; the new holder can (B-155, B-160, R-09)."""
    clock.advance(60.1)
    with client.get_queue_receiver(queue_name) as other:
        again = receive_one(other)
        for call in (receiver.renew_message_lock, receiver.complete_message, receiver.abandon_message):
            with pytest.raises(MessageLockLostError):
                call(message)
        assert receiver.receive_messages(max_wait_time=0) == []
        other.complete_message(again)


def test_lock_holds_to_its_last_moment(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A message can be settled just before its lock ends (B-157)."""
    clock.advance(59.9)
    receiver.complete_message(message)


def test_expired_lock_returns_the_message_and_counts_a_delivery(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """When a lock expires, the message is available again with one more delivery (B-157)."""
    assert message.delivery_count == 0
    for count in (1, 2, 3):
        clock.advance(60.1)
        again = receive_one(receiver)
        assert (again.sequence_number, again.delivery_count) == (message.sequence_number, count)


@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead_letter"])
def test_settling_after_the_end_is_lock_lost(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    queue_name: str,
    clock: ManualClock,
    snapshot: Callable[[str], object],
    verb: str,
) -> None:
    """A settlement with an expired lock is refused and changes nothing (B-155, R-09)."""
    clock.advance(60.1)
    before = snapshot(queue_name)
    with pytest.raises(MessageLockLostError):
        getattr(receiver, f"{verb}_message")(message)
    assert snapshot(queue_name) == before


def test_locks_of_a_batch_end_one_by_one(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Renewing some messages of a batch keeps only those locked (B-154, B-157)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(10)])
    messages = drain(receiver)
    clock.advance(30)
    for message in messages[::2]:
        receiver.renew_message_lock(message)
    clock.advance(31)
    assert sorted(int(str(message)) for message in drain(receiver)) == [1, 3, 5, 7, 9]
    clock.advance(30)
    assert sorted(int(str(message)) for message in drain(receiver)) == [0, 2, 4, 6, 8]


def test_locks_taken_at_different_times_end_at_different_times(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Each lock ends at its own time, in whatever order messages were received (B-151, B-157)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
    for _ in range(3):
        receive_one(receiver)
        clock.advance(10)
    returned = []
    clock.advance(25)
    for _ in range(4):
        returned.append(len(drain(receiver)))
        clock.advance(10)
    assert returned == [0, 1, 1, 1]


def test_a_long_jump_of_the_clock_ends_every_lock_once(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """However far time jumps, a lock expires once and counts one delivery (B-157, R-32)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(5)])
    drain(receiver)
    clock.advance(400 * 24 * 3600)
    assert [message.delivery_count for message in drain(receiver)] == [1] * 5


@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead_letter"])
def test_peeked_messages_have_no_lock(sender: ServiceBusSender, receiver: ServiceBusReceiver, verb: str) -> None:
    """A peeked message has no token, so settling or renewing it is a ValueError as in the SDK (B-161)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    (message,) = receiver.peek_messages()
    assert message.lock_token is None
    assert message.locked_until_utc is None
    with pytest.raises(ValueError, match="peek"):
        getattr(receiver, f"{verb}_message")(message)
    with pytest.raises(ValueError, match="peek"):
        receiver.renew_message_lock(message)
