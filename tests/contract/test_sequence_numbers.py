# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers, enqueued times and order (B-103 to B-124)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusSubQueue
from oxbus.exceptions import InvalidOperationError, MessageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

LOW_48_BITS = (1 << 48) - 1


def test_plain_queue_numbers_from_one_without_gaps(
    client: ServiceBusClient, plain_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A fresh queue gives 1, 2, 3 in the order of its sends, batches included (B-103, B-104, B-105)."""
    with client.get_queue_sender(plain_queue) as sender:
        sender.send_messages(ServiceBusMessage(b"a"))
        sender.send_messages([ServiceBusMessage(b"b"), ServiceBusMessage(b"c")])
        sender.send_messages(ServiceBusMessage(b"d"))
    with client.get_queue_receiver(plain_queue) as receiver:
        messages = drain(receiver)
    assert [(message.sequence_number, str(message)) for message in messages] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_partition_is_in_the_top_16_bits(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A number is its partition in the top 16 bits and that partition's own gap-free counter below (B-105, B-106)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for number in range(200):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=f"key-{number % 30}"))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    counters: dict[int, list[int]] = {}
    for message in messages:
        assert message.sequence_number >> 48 == message.partition_id
        counters.setdefault(message.partition_id, []).append(message.sequence_number & LOW_48_BITS)
    assert len({message.sequence_number for message in messages}) == 200
    assert all(counter == list(range(1, len(counter) + 1)) for counter in counters.values())


def test_each_queue_counts_for_itself(
    client: ServiceBusClient, make_queue: Callable[..., str], receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Two queues of one namespace do not share a counter (B-104, B-105)."""
    for name in (make_queue("first"), make_queue("second")):
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(b"x", partition_key="k"))
        with client.get_queue_receiver(name) as receiver:
            assert receive_one(receiver).sequence_number & LOW_48_BITS == 1


def test_refused_sends_use_up_no_number(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    with_two_keys: Callable[..., object],
) -> None:
    """Refused sends leave no gap in the numbers (B-105)."""
    nothing: Any = None
    for text in ("a", "b"):
        sender.send_messages(ServiceBusMessage(text, partition_key="k"))
        with pytest.raises(InvalidOperationError):
            with_two_keys(sender.send_messages)
        with pytest.raises(TypeError):
            sender.send_messages([ServiceBusMessage(text, partition_key="k"), nothing])
    assert [message.sequence_number & LOW_48_BITS for message in drain(receiver)] == [1, 2]


def test_numbers_are_not_used_again(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """An emptied queue continues its numbers (B-105, R-08)."""
    numbers = []
    for _ in range(600):
        sender.send_messages(ServiceBusMessage(b"x", partition_key="k"))
        message = receive_one(receiver)
        numbers.append(message.sequence_number & LOW_48_BITS)
        receiver.complete_message(message)
    assert numbers == list(range(1, 601))


def test_a_message_keeps_its_number_and_time(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Number and enqueued time survive abandon, lock expiry, deferral and dead-lettering (B-110, B-111, B-118)."""
    sent_at = clock.now()
    sender.send_messages(ServiceBusMessage(b"x"))
    seen = [first := receive_one(receiver)]
    clock.advance(1)
    receiver.abandon_message(first)
    seen.append(receive_one(receiver))
    clock.advance(61)
    seen.append(again := receive_one(receiver))
    receiver.defer_message(again)
    clock.advance(1)
    (deferred,) = receiver.receive_deferred_messages(first.sequence_number)
    seen.append(deferred)
    receiver.dead_letter_message(deferred)
    clock.advance(1)
    with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        seen.append(receive_one(dead_letters))
    assert {message.sequence_number for message in seen} == {first.sequence_number}
    assert {message.enqueued_time_utc for message in seen} == {sent_at}


def test_scheduled_message_gets_a_new_number_when_it_becomes_active(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Activation gives the message the next number; the old one is not found (B-112, B-235)."""
    message = ServiceBusMessage(b"later", partition_key="k")
    (scheduled,) = sender.schedule_messages(message, clock.now() + timedelta(minutes=10))
    sender.send_messages(ServiceBusMessage(b"now", partition_key="k"))
    clock.advance(601)
    first, second = receive_one(receiver), receive_one(receiver)
    assert scheduled & LOW_48_BITS == 1
    assert [(str(first), first.sequence_number & LOW_48_BITS), (str(second), second.sequence_number & LOW_48_BITS)] == [
        ("now", 2),
        ("later", 3),
    ]
    assert second.sequence_number >> 48 == scheduled >> 48
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(scheduled)


def test_scheduled_message_has_two_enqueued_times(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The enqueued time is that of the send while pending, and later that of the activation (B-119)."""
    sent_at = clock.now()
    due = sent_at + timedelta(minutes=10)
    sender.schedule_messages(ServiceBusMessage(b"later"), due)
    (pending,) = receiver.peek_messages(max_message_count=10)
    assert pending.enqueued_time_utc == sent_at
    clock.advance(600)
    assert receive_one(receiver).enqueued_time_utc == due


def test_enqueued_time_is_the_brokers(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """The enqueued time is the broker's UTC time at acceptance, to the millisecond (B-117)."""
    sent_at = []
    for text in ("a", "b", "c"):
        sent_at.append(clock.now())
        sender.send_messages(ServiceBusMessage(text, partition_key="k"))
        clock.advance(1.234)
    messages = drain(receiver)
    assert [message.enqueued_time_utc for message in messages] == sent_at
    assert all(message.enqueued_time_utc.utcoffset() == timedelta(0) for message in messages)


def test_released_message_is_next_again(
    client: ServiceBusClient,
    plain_queue: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A message returned by abandon or lock expiry is delivered before later ones (B-120, B-163)."""
    with client.get_queue_sender(plain_queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
    with client.get_queue_receiver(plain_queue) as receiver:
        first = receive_one(receiver)
        receiver.abandon_message(first)
        assert str(receive_one(receiver)) == "0"
        assert str(receive_one(receiver)) == "1"
        clock.advance(61)
        assert [str(message) for message in drain(receiver)] == ["0", "1", "2", "3", "4"]


def test_partitions_are_served_in_their_own_order(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Each partition is received in number order; there is no order across partitions (B-121)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for number in range(500):
            sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver, 7)
    for partition_id in range(16):
        numbers = [message.sequence_number for message in messages if message.partition_id == partition_id]
        assert numbers == sorted(numbers)
        assert numbers


def test_order_criterion_under_equal_times(
    client: ServiceBusClient, plain_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Messages with equal enqueued times are ordered by number (B-116)."""
    with client.get_queue_sender(plain_queue) as sender:
        for number in range(10):
            sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(plain_queue) as receiver:
        messages = drain(receiver)
    assert len({message.enqueued_time_utc for message in messages}) == 1
    assert [message.sequence_number for message in messages] == list(range(1, 11))
    assert [str(message) for message in messages] == [str(number) for number in range(10)]


@pytest.mark.parametrize("number", [1 << 60, (1 << 63) - 1, 77])
def test_unknown_numbers_are_not_found(receiver: ServiceBusReceiver, sender: ServiceBusSender, number: int) -> None:
    """An unknown number of up to 64 signed bits is a message-not-found error (B-107, B-109, B-278)."""
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(number)
