# SPDX-License-Identifier: Apache-2.0
"""Delivery count and the move to the dead-letter queue (B-176 to B-180, B-267, R-13, R-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

ENDINGS = ("abandon", "expire")


def end_delivery(
    ending: str, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, clock: ManualClock
) -> None:
    """End a delivery without completing the message."""
    if ending == "abandon":
        receiver.abandon_message(message)
    else:
        clock.advance(60.1)


def test_first_delivery_has_count_zero(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """The count is the number of earlier deliveries, so it starts at 0 (B-176)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    assert receive_one(receiver).delivery_count == 0


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ended_delivery_counts_once(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    ending: str,
) -> None:
    """Abandon and lock expiry raise the count by one each time (B-177)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    for count in range(9):
        message = receive_one(receiver)
        assert message.delivery_count == count
        end_delivery(ending, receiver, message, clock)


def test_peek_and_renewal_do_not_count(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Neither browsing nor renewing raises the count (B-177)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    for _ in range(5):
        receiver.peek_messages(sequence_number=1)
    message = receive_one(receiver)
    assert message.delivery_count == 0
    for _ in range(5):
        clock.advance(30)
        receiver.renew_message_lock(message)
    receiver.abandon_message(message)
    assert receive_one(receiver).delivery_count == 1


def test_closing_a_receiver_does_not_count_cached_messages(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Closing a receiver releases its cached messages without raising counts (B-177)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(5)])
    for _ in range(3):
        with client.get_queue_receiver(queue_name, prefetch_count=10) as receiver:
            receiver.abandon_message(receive_one(receiver))
    with client.get_queue_receiver(queue_name) as receiver:
        assert sum(message.delivery_count for message in drain(receiver)) == 3


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_message_moves_after_its_last_delivery(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    limit: int,
    ending: str,
) -> None:
    """With limit M a message is delivered with counts 0 to M-1 and then dead-lettered, not delivered again (B-178)."""
    queue_name = make_queue(max_delivery_count=limit)
    with (
        client.get_queue_sender(queue_name) as sender,
        client.get_queue_receiver(queue_name) as receiver,
        client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters,
    ):
        sender.send_messages(ServiceBusMessage(b"poison", message_id="p"))
        for count in range(limit):
            assert dead_letters.receive_messages(max_wait_time=0) == []
            message = receive_one(receiver)
            assert message.delivery_count == count
            end_delivery(ending, receiver, message, clock)
        assert receiver.receive_messages(max_wait_time=0) == []
        dead = receive_one(dead_letters)
        assert (dead.message_id, dead.sequence_number) == ("p", message.sequence_number)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert dead.dead_letter_error_description == f"Message could not be consumed after {limit} delivery attempts."
        assert dead.delivery_count == limit


def test_dead_letter_queue_counts_on_but_moves_nothing(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """In the dead-letter queue the count continues to rise without a limit (B-179)."""
    queue_name = make_queue(max_delivery_count=2)
    with (
        client.get_queue_sender(queue_name) as sender,
        client.get_queue_receiver(queue_name) as receiver,
        client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters,
    ):
        sender.send_messages(ServiceBusMessage(b"x"))
        for _ in range(2):
            receiver.abandon_message(receive_one(receiver))
        for count in range(2, 8):
            dead = receive_one(dead_letters)
            assert dead.delivery_count == count
            end_delivery(ENDINGS[count % 2], dead_letters, dead, clock)


def test_limit_can_be_changed_later(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The limit in force when a delivery ends decides (B-029, B-178)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    receiver.abandon_message(receive_one(receiver))
    queue = admin.get_queue(queue_name)
    queue.max_delivery_count = 2
    admin.update_queue(queue)
    receiver.abandon_message(receive_one(receiver))
    assert receiver.receive_messages(max_wait_time=0) == []
    assert admin.get_queue_runtime_properties(queue_name).dead_letter_message_count == 1


def test_locked_message_peeks_like_an_undelivered_one(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Peek shows a locked message as active, with its count not yet raised (B-180)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    receive_one(receiver)
    (peeked,) = receiver.peek_messages(sequence_number=1)
    assert (peeked.state, peeked.delivery_count) == (ServiceBusMessageState.ACTIVE, 0)


def test_counts_beyond_twelve_bits(
    client: ServiceBusClient, make_queue: Callable[..., str], receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A queue with a large limit counts past four thousand deliveries (B-029)."""
    queue_name = make_queue(max_delivery_count=100_000)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        for count in range(4200):
            message = receive_one(receiver)
            assert message.delivery_count == count
            receiver.abandon_message(message)
