# SPDX-License-Identifier: Apache-2.0
"""Settlement: complete, abandon, defer, dead-letter, one by one and in bulk (B-160 to B-175, R-03)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.exceptions import MessageAlreadySettled, MessageLockLostError, ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

VERBS = ("complete", "abandon", "defer", "dead_letter")


@pytest.fixture
def message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> ServiceBusReceivedMessage:
    """One message with the properties a=1 and b="old", locked by `receiver`."""
    sender.send_messages(ServiceBusMessage(b"x", application_properties={"a": 1, "b": "old"}))
    return receive_one(receiver)


@pytest.fixture
def dead_letters(client: ServiceBusClient, queue_name: str) -> ServiceBusReceiver:
    """A receiver of the dead-letter queue of `queue_name`."""
    return client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)


def test_complete_removes_the_message(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A completed message is never delivered, peeked or counted again (B-162, R-03)."""
    receiver.complete_message(message)
    clock.advance(3600)
    assert receiver.receive_messages(max_wait_time=0) == []
    assert peek_all(client, queue_name) == []
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_abandoned_message_is_available_at_once(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """An abandoned message is available at once with its number and a higher delivery count (B-163)."""
    receiver.abandon_message(message)
    again = receive_one(receiver)
    assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 1)
    assert again.lock_token != message.lock_token


def test_deferred_message_is_fetched_by_number_only(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A deferred message stays in the queue and is received by its number only (B-164, B-275)."""
    receiver.defer_message(message)
    clock.advance(3600)
    assert receiver.receive_messages(max_wait_time=0) == []
    (peeked,) = receiver.peek_messages()
    assert peeked.state == ServiceBusMessageState.DEFERRED


def test_dead_letter_moves_the_message(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A dead-lettered message leaves the queue for its dead-letter queue with the given reason (B-165)."""
    receiver.dead_letter_message(message, reason="broken", error_description="no address")
    assert receiver.receive_messages(max_wait_time=0) == []
    dead = receive_one(dead_letters)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("broken", "no address")


@pytest.mark.parametrize("verb", ["abandon", "defer"])
@pytest.mark.parametrize("form", ["message", "messages"], ids=["singular", "plural"])
def test_settlement_can_change_properties(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    form: str,
    verb: str,
) -> None:
    """Abandon and defer add or overwrite application properties of the stored message (B-166)."""
    settle = getattr(receiver, f"{verb}_{form}")
    settle(message if form == "message" else [message], properties_to_modify={"b": "new", "c": 2.5})
    if verb == "abandon":
        changed = receive_one(receiver)
    else:
        (changed,) = receiver.receive_deferred_messages(message.sequence_number)
    assert changed.application_properties == {"a": 1, "b": "new", "c": 2.5}
    assert b"".join(changed.body) == b"x"


@pytest.mark.parametrize("verb", ["abandon", "defer"])
def test_bad_properties_leave_the_message_locked(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, verb: str
) -> None:
    """A property of an unsupported type is refused, and the lock stays valid (B-166)."""
    with pytest.raises((TypeError, ValueError)):
        getattr(receiver, f"{verb}_message")(message, properties_to_modify={"b": object()})
    receiver.complete_message(message)


@pytest.mark.parametrize("second", [*VERBS, "renew"])
@pytest.mark.parametrize("first", VERBS)
def test_a_message_is_settled_once(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    queue_name: str,
    snapshot: Callable[[str], object],
    first: str,
    second: str,
) -> None:
    """After a settlement, another one or a renewal raises MessageAlreadySettled and changes nothing (B-160)."""
    getattr(receiver, f"{first}_message")(message)
    before = snapshot(queue_name)
    call = receiver.renew_message_lock if second == "renew" else getattr(receiver, f"{second}_message")
    with pytest.raises(MessageAlreadySettled) as refusal:
        call(message)
    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, ServiceBusError)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("verb", VERBS)
def test_settled_message_shows_no_lock(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, verb: str
) -> None:
    """After settlement a message has no lock token and no lock end, as in the SDK (B-160)."""
    getattr(receiver, f"{verb}_message")(message)
    assert message.lock_token is None
    assert message.locked_until_utc is None


@pytest.mark.parametrize("verb", VERBS)
def test_any_receiver_of_the_queue_may_settle(
    message: ServiceBusReceivedMessage, client: ServiceBusClient, queue_name: str, verb: str
) -> None:
    """Any receiver of the queue can settle a locked message (B-158)."""
    with client.get_queue_receiver(queue_name) as other:
        other.renew_message_lock(message)
        getattr(other, f"{verb}_message")(message)
        with pytest.raises(MessageAlreadySettled):
            getattr(other, f"{verb}_message")(message)


@pytest.mark.parametrize("verb", VERBS)
def test_receiver_of_another_queue_may_not_settle(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    queue_name: str,
    snapshot: Callable[[str], object],
    verb: str,
) -> None:
    """A token is invalid in another queue, even for an equal number, and nothing changes in either (B-170)."""
    other_queue = make_queue("other")
    with client.get_queue_sender(other_queue) as sender:
        for _ in range(16):
            sender.send_messages(ServiceBusMessage(b"y"))
    with client.get_queue_receiver(other_queue) as other:
        locked = other.receive_messages(max_message_count=16, max_wait_time=0)
        before = snapshot(queue_name), snapshot(other_queue)
        with pytest.raises(MessageLockLostError):
            getattr(other, f"{verb}_message")(message)
        with pytest.raises(MessageLockLostError):
            other.renew_message_lock(message)
        assert (snapshot(queue_name), snapshot(other_queue)) == before
        other.complete_messages(locked)
    receiver.complete_message(message)


def test_dead_letter_queue_is_another_queue(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A queue and its dead-letter queue do not accept each other's tokens (B-170, B-287)."""
    with pytest.raises(MessageLockLostError):
        dead_letters.complete_message(message)
    receiver.dead_letter_message(message)
    dead = receive_one(dead_letters)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(dead)
    dead_letters.complete_message(dead)


def test_token_of_a_deleted_queue_is_worthless(
    message: ServiceBusReceivedMessage,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A recreated queue does not accept locks of its predecessor (B-170)."""
    admin.delete_queue(queue_name)
    make_queue(queue_name)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"new"))
        fresh = receive_one(receiver)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        receiver.complete_message(fresh)


@pytest.mark.parametrize("verb", VERBS)
def test_only_received_messages_can_be_settled(receiver: ServiceBusReceiver, verb: str) -> None:
    """Settling anything but a received message is a TypeError as in the SDK (B-162)."""
    for nothing in (ServiceBusMessage(b"x"), None, "message", 1):
        with pytest.raises(TypeError):
            getattr(receiver, f"{verb}_message")(nothing)


def test_completing_after_the_message_expired_succeeds(
    client: ServiceBusClient,
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A message that expires while locked can still be completed (B-173, B-252)."""
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=timedelta(seconds=10)))
    message = receive_one(receiver)
    clock.advance(30)
    receiver.complete_message(message)
    assert peek_all(client, queue_name) == []


def test_received_message_cannot_be_sent(
    message: ServiceBusReceivedMessage, sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object]
) -> None:
    """Sending a received message is refused (B-175)."""
    before = snapshot(queue_name)
    with pytest.raises((ServiceBusError, TypeError, ValueError)):
        sender.send_messages(message)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("verb", VERBS)
def test_plural_settlement_settles_all(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    verb: str,
) -> None:
    """The plural verbs settle messages of all partitions in one call (B-162 to B-165)."""
    for _ in range(40):
        sender.send_messages(ServiceBusMessage(b"x"))
    messages = drain(receiver)
    getattr(receiver, f"{verb}_messages")(messages)
    counts = admin.get_queue_runtime_properties(queue_name)
    expected = {"complete": (0, 0, 0), "abandon": (40, 0, 0), "defer": (40, 40, 0), "dead_letter": (40, 0, 40)}[verb]
    found = (counts.total_message_count, counts.deferred_message_count, counts.dead_letter_message_count)
    assert found == expected
    assert counts.locked_message_count == 0
    for message in messages:
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)


def test_plural_dead_letter_takes_a_reason(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """`dead_letter_messages` gives every message the same reason and description (B-165)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
    receiver.dead_letter_messages(drain(receiver), reason="broken", error_description="no address")
    reasons = [(message.dead_letter_reason, message.dead_letter_error_description) for message in drain(dead_letters)]
    assert reasons == [("broken", "no address")] * 3


@pytest.mark.parametrize("verb", VERBS)
def test_plural_settlement_names_lost_locks_and_settles_the_others(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    verb: str,
) -> None:
    """When some locks are lost the error names their numbers and the other messages are settled (B-155, R-09)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(6)])
    messages = drain(receiver)
    clock.advance(30)
    kept, lost = messages[::2], messages[1::2]
    for message in kept:
        receiver.renew_message_lock(message)
    clock.advance(31)
    with pytest.raises(MessageLockLostError) as refusal:
        getattr(receiver, f"{verb}_messages")(messages)
    assert sorted(refusal.value.sequence_numbers) == sorted(message.sequence_number for message in lost)
    for message in kept:
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)
    available = {message.sequence_number for message in drain(receiver)}
    assert {message.sequence_number for message in lost} <= available


def test_plural_settlement_of_nothing_is_no_error(receiver: ServiceBusReceiver) -> None:
    """An empty list settles nothing (B-162)."""
    for verb in VERBS:
        getattr(receiver, f"{verb}_messages")([])


def test_each_message_of_a_batch_has_its_own_outcome(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    dead_letters: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages received together are settled independently (B-162 to B-165)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(8)])
    messages = drain(receiver)
    for message, verb in zip(messages, VERBS * 2, strict=True):
        getattr(receiver, f"{verb}_message")(message)
    assert [str(message) for message in drain(receiver)] == ["1", "5"]
    assert [str(message) for message in drain(dead_letters)] == ["3", "7"]
    numbers = [message.sequence_number for message in messages[2::4]]
    assert [str(message) for message in receiver.receive_deferred_messages(numbers)] == ["2", "6"]
