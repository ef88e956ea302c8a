# SPDX-License-Identifier: Apache-2.0
"""Abandoning with a delay, an extension (B-468): nothing is delivered before, everything afterwards."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.aio import ServiceBusClient as AsyncClient
from oxbus.exceptions import MessageAlreadySettled, MessageNotFoundError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock


@pytest.fixture
def message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> ServiceBusReceivedMessage:
    """One message, locked by `receiver`."""
    sender.send_messages(ServiceBusMessage(b"x", application_properties={"a": 1}))
    return receive_one(receiver)


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies in order."""
    return [str(message) for message in messages]


@pytest.mark.parametrize("delay", [10, 9.9991, timedelta(seconds=10), timedelta(seconds=9, microseconds=999_001)])
def test_message_is_not_delivered_before_the_end_of_its_delay(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    delay: Any,
) -> None:
    """It returns with its number and a higher delivery count. A part of a millisecond counts as a whole one."""
    receiver.abandon_message(message, delay=delay)
    clock.advance(9.999)
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(0.001)
    again = receive_one(receiver)
    assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 1)
    receiver.complete_message(again)
    clock.advance(3600)
    assert receiver.receive_messages(max_wait_time=0) == []


@pytest.mark.parametrize("delay", [None, 0, 0.0, timedelta(0)])
def test_without_a_delay_it_is_available_at_once(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    delay: Any,
) -> None:
    """As without the option (B-163)."""
    receiver.abandon_message(message, delay=delay)
    assert receive_one(receiver).delivery_count == 1


@pytest.mark.parametrize(
    ("delay", "error", "text"),
    [
        (-1, ValueError, "cannot be negative"),
        (timedelta(microseconds=-1), ValueError, "cannot be negative"),
        (float("nan"), ValueError, "cannot be negative"),
        (float("inf"), ValueError, "delay"),
        (timedelta(days=366), ValueError, "delay"),
        ("10", TypeError, "a number of seconds or a timedelta, not str"),
    ],
)
def test_wrong_delays(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, delay: Any, error: type[Exception], text: str
) -> None:
    """The lock stays, so the message can still be settled."""
    with pytest.raises(error, match=text):
        receiver.abandon_message(message, delay=delay)
    with pytest.raises(error, match=text):
        receiver.abandon_messages([message], delay=delay)
    receiver.complete_message(message)


def test_end_of_the_former_lock_changes_nothing(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """It neither counts a delivery nor ends the delay, and the message object is settled (B-155, B-160)."""
    receiver.abandon_message(message, delay=100)
    for call in (receiver.complete_message, receiver.renew_message_lock):
        with pytest.raises(MessageAlreadySettled):
            call(message)
    clock.advance(99)
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(1)
    assert receive_one(receiver).delivery_count == 1


def test_peek_and_counts_show_it_as_scheduled(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """With the end of the delay as its time. It is neither active nor locked, and cannot be cancelled or purged."""
    receiver.abandon_message(message, delay=60)
    (peeked,) = peek_all(client, queue_name)
    assert peeked.state == ServiceBusMessageState.SCHEDULED
    assert peeked.scheduled_enqueue_time_utc == clock.now() + timedelta(seconds=60)
    assert (peeked.sequence_number, peeked.delivery_count) == (message.sequence_number, 1)
    assert peeked.application_properties == {"a": 1}
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.active_message_count, counts.locked_message_count) == (0, 0)
    assert (counts.scheduled_message_count, counts.total_message_count) == (1, 1)
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(message.sequence_number or 0)
    assert admin.purge_messages(queue_name) == 0
    clock.advance(60)
    (peeked,) = peek_all(client, queue_name)
    assert (peeked.state, peeked.scheduled_enqueue_time_utc) == (ServiceBusMessageState.ACTIVE, None)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.active_message_count, counts.scheduled_message_count) == (1, 0)
    assert admin.purge_messages(queue_name) == 1


def test_properties_change_at_once(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The delay is independent of changed properties (B-166)."""
    receiver.abandon_message(message, properties_to_modify={"b": "tried"}, delay=5)
    (peeked,) = receiver.peek_messages()
    assert peeked.application_properties == {"a": 1, "b": "tried"}
    clock.advance(5)
    assert receive_one(receiver).application_properties == {"a": 1, "b": "tried"}


def test_list_is_delayed_and_others_are_received_meanwhile(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Delayed messages do not hold up later ones, and come back in the order of their numbers (B-120)."""
    for number in range(6):
        sender.send_messages(ServiceBusMessage(str(number), partition_key="k"))
    messages = drain(receiver)
    receiver.abandon_messages(messages[:2], delay=timedelta(seconds=20))
    receiver.abandon_messages(messages[2:4], delay=10)
    receiver.abandon_messages(messages[4:])
    rest = drain(receiver)
    assert texts(rest) == ["4", "5"]
    receiver.abandon_messages(rest)
    clock.advance(20)
    assert texts(drain(receiver)) == ["0", "1", "2", "3", "4", "5"]


def test_last_delivery_is_dead_lettered_at_once(
    make_queue: Callable[..., str], client: ServiceBusClient, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """The delivery count and its maximum work as for any abandon (B-178)."""
    queue = make_queue("twice", max_delivery_count=1)
    client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
    with client.get_queue_receiver(queue) as receiver:
        receiver.abandon_message(receive_one(receiver), delay=100)
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        assert receive_one(dead_letters).dead_letter_reason == "MaxDeliveryCountExceeded"


def test_message_that_expires_during_its_delay(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """It is never delivered, and is dead-lettered when it expires, not at the end of the delay (B-251)."""
    queue = make_queue("short", dead_lettering_on_message_expiration=True)
    client.get_queue_sender(queue).send_messages(ServiceBusMessage("x", time_to_live=timedelta(seconds=10)))
    with client.get_queue_receiver(queue) as receiver:
        receiver.abandon_message(receive_one(receiver), delay=3600)
        clock.advance(10)
        assert receiver.receive_messages(max_wait_time=0) == []
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        assert receive_one(dead_letters).dead_letter_reason == "TTLExpiredException"
    assert admin.get_queue_runtime_properties(queue).scheduled_message_count == 0


def test_dead_letters_can_be_delayed(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A program that repairs dead letters may try again later; they stay dead letters."""
    receiver.dead_letter_message(message)
    with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        dead_letters.abandon_message(receive_one(dead_letters), delay=30)
        (peeked,) = peek_all(client, queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        assert peeked.state == ServiceBusMessageState.SCHEDULED
        assert dead_letters.receive_messages(max_wait_time=0) == []
        clock.advance(30)
        assert receive_one(dead_letters).sequence_number == message.sequence_number


def test_deferred_message_cannot_be_fetched_before(
    message: ServiceBusReceivedMessage, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """It stays deferred: afterwards it is fetched by its number (B-282)."""
    receiver.defer_message(message)
    number = message.sequence_number or 0
    (fetched,) = receiver.receive_deferred_messages(number)
    receiver.abandon_message(fetched, delay=30)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)
    (peeked,) = receiver.peek_messages()
    assert peeked.state == ServiceBusMessageState.DEFERRED
    clock.advance(30)
    assert receiver.receive_messages(max_wait_time=0) == []
    (fetched,) = receiver.receive_deferred_messages(number)
    assert fetched.delivery_count == 2


def test_waiting_receiver_gets_it_at_the_end(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """A receiver that waits before the delay begins notices its end."""
    with client.get_queue_receiver(queue_name) as other:
        waiting = in_background(other.receive_messages, max_wait_time=3600)
        receiver.abandon_message(message, delay=100)
        clock.advance(99)
        assert waiting.running
        clock.advance(1)
        assert texts(waiting.result()) == ["x"]


def test_delay_with_the_system_clock(open_namespace: Callable[..., Namespace]) -> None:
    """A waiting receiver wakes without another call, long before it would look again for expired locks."""
    namespace = open_namespace()
    ServiceBusAdministrationClient(namespace).create_queue("q", lock_duration=timedelta(minutes=5))
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("q") as receiver:
        client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
        (message,) = receiver.receive_messages(max_wait_time=60)
        receiver.abandon_message(message, delay=0.05)
        assert texts(receiver.receive_messages(max_wait_time=60)) == ["x"]


def test_transaction(
    client: ServiceBusClient,
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The commit begins the delay, which counts from the call; a rollback leaves the lock."""
    undone = client.transaction()
    receiver.abandon_message(message, delay=50, transaction=undone)
    undone.rollback()
    with client.transaction() as transaction:
        receiver.abandon_messages([message], delay=50, transaction=transaction)
        clock.advance(5)
        assert receiver.peek_messages()[0].state == ServiceBusMessageState.ACTIVE
    assert receiver.peek_messages(sequence_number=1)[0].state == ServiceBusMessageState.SCHEDULED
    clock.advance(44.999)
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(0.001)
    assert receive_one(receiver).delivery_count == 1


def test_asynchronous_receiver(
    namespace: Namespace, message: ServiceBusReceivedMessage, queue_name: str, clock: ManualClock
) -> None:
    """The asynchronous methods have the option too."""

    async def use() -> list[int | None]:
        async with AsyncClient(namespace) as client, client.get_queue_receiver(queue_name) as receiver:
            await receiver.abandon_message(message, delay=10)
            clock.advance(10)
            (again,) = await receiver.receive_messages(max_wait_time=60)
            await receiver.abandon_messages([again], delay=timedelta(seconds=10))
            assert await receiver.receive_messages(max_wait_time=0) == []
            clock.advance(10)
            return [message.delivery_count for message in await receiver.receive_messages(max_wait_time=60)]

    assert asyncio.run(use()) == [2]


def test_forwarding_waits_for_the_end_of_the_delay(
    message: ServiceBusReceivedMessage,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A queue that is set to forward during the delay forwards the message afterwards (B-328)."""
    receiver.abandon_message(message, delay=40)
    target = make_queue("target")
    properties = admin.get_queue(queue_name)
    properties.forward_to = target
    admin.update_queue(properties)
    with client.get_queue_receiver(target) as at_target:
        assert drain(at_target) == []
        clock.advance(40)
        assert texts(drain(at_target)) == ["x"]
