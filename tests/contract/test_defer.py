# SPDX-License-Identifier: Apache-2.0
"""Deferral: a deferred message is received by sequence number only (B-275 to B-288)."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode, ServiceBusSubQueue
from oxbus.exceptions import MessageLockLostError, MessageNotFoundError, ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


@pytest.fixture
def defer_some(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> Callable[[int], list[int]]:
    """Send messages "0", "1", … with one key, defer them, and return their sequence numbers."""

    def defer_some(count: int) -> list[int]:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(count)])
        messages = drain(receiver)
        receiver.defer_messages(messages)
        return [message.sequence_number for message in messages]

    return defer_some


def test_deferred_message_is_hidden_from_receive_but_not_from_peek(
    defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A deferred message stays in the queue, is not received, and peek shows it as deferred (B-275)."""
    (number,) = defer_some(1)
    clock.advance(3600)
    assert receiver.receive_messages(max_wait_time=0) == []
    (peeked,) = receiver.peek_messages()
    assert (peeked.sequence_number, peeked.state) == (number, ServiceBusMessageState.DEFERRED)


def test_number_brings_the_message_back_locked(
    defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A fetch by number returns the message with its state and a lock of full duration (B-276, B-277, B-285)."""
    (number,) = defer_some(1)
    clock.advance(100)
    (message,) = receiver.receive_deferred_messages(number)
    assert (message.sequence_number, message.state) == (number, ServiceBusMessageState.DEFERRED)
    assert message.lock_token is not None
    assert message.locked_until_utc == clock.now() + timedelta(minutes=1)


def test_fetch_returns_each_message_once(defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver) -> None:
    """A fetch of several numbers returns each message once (B-276)."""
    numbers = defer_some(5)
    messages = receiver.receive_deferred_messages([numbers[3], numbers[0], numbers[4]])
    assert sorted(str(message) for message in messages) == ["0", "3", "4"]


def test_any_receiver_of_the_queue_may_fetch(
    defer_some: Callable[[int], list[int]], client: ServiceBusClient, queue_name: str
) -> None:
    """Any receiver that knows the number may fetch and settle (B-276)."""
    (number,) = defer_some(1)
    with client.get_queue_receiver(queue_name) as other:
        (message,) = other.receive_deferred_messages([number])
        other.complete_message(message)


def test_fetch_of_nothing_is_no_error(receiver: ServiceBusReceiver) -> None:
    """An empty list of numbers returns no messages, as in the SDK (B-276)."""
    assert receiver.receive_deferred_messages([]) == []


def test_receive_and_delete_fetch_removes(
    defer_some: Callable[[int], list[int]],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
) -> None:
    """A fetch by a receive-and-delete receiver removes the messages (B-277)."""
    numbers = defer_some(3)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue_name, receive_mode=mode) as taker:
        messages = taker.receive_deferred_messages(numbers)
        assert [message.lock_token for message in messages] == [None] * 3
        with pytest.raises(MessageNotFoundError):
            taker.receive_deferred_messages(numbers[0])
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


@pytest.mark.parametrize("reason", ["unknown", "active", "locked", "fetched", "completed"])
def test_fetch_is_all_or_nothing(
    defer_some: Callable[[int], list[int]],
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    snapshot: Callable[[str], object],
    reason: str,
) -> None:
    """If one number is missing, not deferred or locked, nothing is fetched and nothing changes (B-278)."""
    good, other = defer_some(2)
    if reason == "unknown":
        other += 1000
    elif reason == "active":
        sender.send_messages(ServiceBusMessage(b"active", partition_key="k"))
        other += 1
    elif reason == "locked":
        sender.send_messages(ServiceBusMessage(b"locked", partition_key="k"))
        other = receive_one(receiver).sequence_number
    elif reason == "fetched":
        receiver.receive_deferred_messages(other)
    else:
        receiver.complete_messages(receiver.receive_deferred_messages([other]))
    before = snapshot(queue_name)
    for numbers in ([good, other], [other, good], [other]):
        with pytest.raises(MessageNotFoundError) as refusal:
            receiver.receive_deferred_messages(numbers)
    assert refusal.value.condition == "com.microsoft:message-not-found"
    assert snapshot(queue_name) == before
    (message,) = receiver.receive_deferred_messages([good])
    assert str(message) == "0"


def test_numbers_of_two_partitions_are_refused(
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    snapshot: Callable[[str], object],
) -> None:
    """All numbers of one fetch must be of one partition; otherwise nothing is fetched (B-279)."""
    with client.get_queue_sender(partitioned_queue) as sender, client.get_queue_receiver(partitioned_queue) as receiver:
        for partition_id in (1, 2):
            sender.send_messages(ServiceBusMessage(b"x", partition_key=key_in(partition_id)))
        messages = drain(receiver)
        receiver.defer_messages(messages)
        before = snapshot(partitioned_queue)
        with pytest.raises(ServiceBusError, match="partition"):
            receiver.receive_deferred_messages([message.sequence_number for message in messages])
        assert snapshot(partitioned_queue) == before
        for message in messages:
            assert len(receiver.receive_deferred_messages([message.sequence_number])) == 1


def test_receive_and_delete_fetch_takes_250_at_most(
    defer_some: Callable[[int], list[int]], client: ServiceBusClient, queue_name: str, snapshot: Callable[[str], object]
) -> None:
    """A receive-and-delete fetch of 251 numbers is refused; 250 are allowed (B-280)."""
    numbers = defer_some(251)
    before = snapshot(queue_name)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue_name, receive_mode=mode) as taker:
        with pytest.raises((ServiceBusError, ValueError), match="250"):
            taker.receive_deferred_messages(numbers)
        assert snapshot(queue_name) == before
        assert len(taker.receive_deferred_messages(numbers[:250])) == 250


@pytest.mark.parametrize("ending", ["abandon", "expire", "defer"])
def test_each_fetch_counts_once(
    defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver, clock: ManualClock, ending: str
) -> None:
    """Every fetch raises the count by one, however it ends, and the message stays deferred (B-281, B-282)."""
    (number,) = defer_some(1)
    counts = []
    for _ in range(4):
        (message,) = receiver.receive_deferred_messages(number)
        counts.append(message.delivery_count)
        if ending == "expire":
            clock.advance(60.1)
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
        else:
            getattr(receiver, f"{ending}_message")(message)
        assert receiver.receive_messages(max_wait_time=0) == []
    assert [later - counts[0] for later in counts] == [0, 1, 2, 3]


def test_fetches_can_exhaust_the_deliveries(
    client: ServiceBusClient, make_queue: Callable[..., str], receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A deferred message that is fetched and abandoned too often goes to the dead-letter queue (B-281)."""
    queue_name = make_queue(max_delivery_count=3)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        message = receive_one(receiver)
        receiver.defer_message(message)
        fetches = 0
        with contextlib.suppress(MessageNotFoundError):
            while fetches < 10:
                (fetched,) = receiver.receive_deferred_messages(message.sequence_number)
                fetches += 1
                receiver.abandon_message(fetched)
        assert 2 <= fetches <= 3
    with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        dead = receive_one(dead_letters)
        assert dead.sequence_number == message.sequence_number
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


def test_it_can_be_deferred_again_with_other_properties(
    defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver
) -> None:
    """Deferring again keeps the number and may change properties each time (B-283)."""
    (number,) = defer_some(1)
    for turn in range(3):
        (message,) = receiver.receive_deferred_messages(number)
        receiver.defer_message(message, properties_to_modify={"turn": turn})
    (message,) = receiver.receive_deferred_messages(number)
    assert message.application_properties == {"turn": 2}


def test_it_can_be_completed(
    defer_some: Callable[[int], list[int]],
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
) -> None:
    """A completed deferred message is removed (B-284)."""
    numbers = defer_some(3)
    receiver.complete_messages(receiver.receive_deferred_messages(numbers))
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(numbers[0])
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_it_can_be_dead_lettered(
    defer_some: Callable[[int], list[int]],
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A dead-lettered deferred message is an ordinary dead letter (B-284)."""
    (number,) = defer_some(1)
    (message,) = receiver.receive_deferred_messages(number)
    receiver.dead_letter_message(message, reason="late")
    with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        dead = receive_one(dead_letters)
        assert (dead.sequence_number, dead.dead_letter_reason) == (number, "late")
        dead_letters.complete_message(dead)


def test_lock_of_a_fetch_can_be_renewed(
    defer_some: Callable[[int], list[int]], receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """A fetched message is locked like any other: exclusive, renewable (B-276, B-282)."""
    (number,) = defer_some(1)
    (message,) = receiver.receive_deferred_messages(number)
    clock.advance(40)
    receiver.renew_message_lock(message)
    clock.advance(40)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)
    receiver.complete_message(message)


def test_no_background_expiry(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """An expired deferred message stays until a fetch for it fails and removes it (B-255, B-278, B-286)."""
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=timedelta(seconds=10)))
    receiver.defer_message(receive_one(receiver))
    for _ in range(2):
        clock.advance(3600)
        assert receiver.receive_messages(max_wait_time=0) == []
        (peeked,) = receiver.peek_messages(sequence_number=1)
        assert peeked.state == ServiceBusMessageState.DEFERRED
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(peeked.sequence_number or 0)
    assert receiver.peek_messages(sequence_number=1) == []


def test_deferred_messages_are_counted(
    defer_some: Callable[[int], list[int]],
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
) -> None:
    """Deferred messages are part of the total and are counted separately (B-288)."""
    numbers = defer_some(3)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.total_message_count, counts.deferred_message_count, counts.locked_message_count) == (3, 3, 0)
    (message,) = receiver.receive_deferred_messages(numbers[0])
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.total_message_count, counts.deferred_message_count, counts.locked_message_count) == (3, 3, 1)
    receiver.complete_message(message)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.total_message_count, counts.deferred_message_count, counts.locked_message_count) == (2, 2, 0)


def test_deferred_messages_do_not_stop_the_others(
    defer_some: Callable[[int], list[int]],
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Thousands of later messages are received past deferred ones, which can still be fetched (B-275)."""
    numbers = defer_some(10)
    for _ in range(10):
        sender.send_messages([ServiceBusMessage(b"x", partition_key="k") for _ in range(300)])
        messages = drain(receiver, 300)
        assert len(messages) == 300
        receiver.complete_messages(messages)
    assert [str(message) for message in receiver.receive_deferred_messages(numbers)] == [str(n) for n in range(10)]


@pytest.mark.parametrize("bad", ["1", 1.5, None, [None], ["1"]], ids=repr)
def test_numbers_must_be_integers(receiver: ServiceBusReceiver, bad: Any) -> None:
    """A number that is not an integer is a TypeError (B-276)."""
    with pytest.raises(TypeError):
        receiver.receive_deferred_messages(bad)
