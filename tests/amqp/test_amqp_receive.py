# SPDX-License-Identifier: Apache-2.0
"""The unmodified SDK receives and settles (B-150 … B-180 over AMQP, behaviour.md 0.4)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError, MessagingEntityNotFoundError, ServiceBusError

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient


def send(client: ServiceBusClient, queue: str, *bodies: str) -> None:
    """Send messages, all to one partition and so in their order."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, partition_key="k") for body in bodies])


def bodies(messages: list[Any]) -> list[str]:
    """Show messages."""
    return [str(message) for message in messages]


def test_complete_removes_a_message(
    client: ServiceBusClient, queue: str, inside: ServiceBusAdministrationClient
) -> None:
    """A completed message is gone; messages arrive in send order."""
    send(client, queue, "1", "2", "3")
    with client.get_queue_receiver(queue) as receiver:
        got: list[Any] = []
        while len(got) < 3:
            for message in receiver.receive_messages(3, max_wait_time=10):
                got.append(message)
                receiver.complete_message(message)
    assert bodies(got) == ["1", "2", "3"]
    assert inside.get_queue_runtime_properties(queue).total_message_count == 0


def test_abandon_counts_a_delivery_and_dead_letters_at_the_maximum(
    client: ServiceBusClient, inside: ServiceBusAdministrationClient, entity_options: dict[str, Any]
) -> None:
    """Each abandon counts (B-163), until the message is dead-lettered (B-181)."""
    inside.create_queue("poison", max_delivery_count=3, **entity_options)
    send(client, "poison", "x")
    counts = []
    with client.get_queue_receiver("poison") as receiver:
        for _ in range(3):
            (message,) = receiver.receive_messages(max_wait_time=10)
            counts.append(message.delivery_count)
            receiver.abandon_message(message)
    assert counts == [0, 1, 2]
    with client.get_queue_receiver("poison", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        receiver.complete_message(message)


def test_dead_letter_carries_reason_and_description(client: ServiceBusClient, queue: str) -> None:
    """The client's reason is on the dead letter (B-263); a dead letter cannot be dead-lettered again."""
    send(client, queue, "bad")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.dead_letter_message(message, reason="why", error_description="in full")
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "in full")
        with pytest.raises(ServiceBusError):
            receiver.dead_letter_message(message, reason="again")


def test_a_deferred_message_is_not_received_again(
    client: ServiceBusClient, queue: str, inside: ServiceBusAdministrationClient
) -> None:
    """A deferred message is not received again (B-276)."""
    send(client, queue, "later", "now")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.defer_message(message)
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert str(message) == "now"
        receiver.complete_message(message)
    assert inside.get_queue_runtime_properties(queue).total_message_count == 1


def test_receive_and_delete_leaves_nothing_to_settle(
    client: ServiceBusClient, queue: str, inside: ServiceBusAdministrationClient
) -> None:
    """A message is removed when it is received: the link delivers it as settled (B-149)."""
    send(client, queue, "1", "2")
    with client.get_queue_receiver(
        queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, max_wait_time=2
    ) as receiver:
        got = bodies(list(receiver))
    assert got == ["1", "2"]
    assert inside.get_queue_runtime_properties(queue).total_message_count == 0


def test_prefetched_messages_are_locked_and_released_when_the_receiver_closes(
    client: ServiceBusClient, queue: str
) -> None:
    """Closing a receiver releases its locked messages without counting a delivery (behaviour.md 0.4)."""
    send(client, queue, *(str(number) for number in range(10)))
    with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        assert str(message) == "0"
        receiver.complete_message(message)
    got: list[tuple[str, int | None]] = []
    with client.get_queue_receiver(queue) as receiver:
        while len(got) < 9:
            for message in receiver.receive_messages(9, max_wait_time=10):
                got.append((str(message), message.delivery_count))
                receiver.complete_message(message)
    assert sorted(got) == [(str(number), 0) for number in range(1, 10)]


def test_competing_receivers_share_the_messages(client: ServiceBusClient, queue: str) -> None:
    """Each message is delivered to exactly one of two receivers."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(100)])
    got: list[str] = []
    guard = threading.Lock()

    def receive() -> None:
        with client.get_queue_receiver(queue, max_wait_time=3) as receiver:
            for message in receiver:
                receiver.complete_message(message)
                with guard:
                    got.append(str(message))

    threads = [threading.Thread(target=receive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got, key=int) == [str(number) for number in range(100)]


def test_a_waiting_receiver_is_woken_by_a_send(client: ServiceBusClient, queue: str) -> None:
    """A message reaches a client that waits for it."""
    got: list[str] = []

    def receive() -> None:
        with client.get_queue_receiver(queue) as receiver:
            for message in receiver.receive_messages(max_wait_time=60):
                got.append(str(message))
                receiver.complete_message(message)

    thread = threading.Thread(target=receive)
    thread.start()
    send(client, queue, "hello")
    thread.join(60)
    assert got == ["hello"]


def test_a_lock_that_ended_cannot_be_settled(
    client: ServiceBusClient, queue: str, inside: ServiceBusAdministrationClient
) -> None:
    """A second settlement of a message fails as a lost lock (B-155)."""
    send(client, queue, "x")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=10)
        again = message
        inside.delete_queue(queue)
        inside.create_queue(queue)
        with pytest.raises((MessageLockLostError, MessagingEntityNotFoundError, ServiceBusError)):
            receiver.complete_message(again)


def test_an_unknown_subscription_is_not_found(client: ServiceBusClient, inside: ServiceBusAdministrationClient) -> None:
    """The attach to a missing subscription of an existing topic fails (B-419)."""
    inside.create_topic("events")
    with pytest.raises(MessagingEntityNotFoundError), client.get_subscription_receiver("events", "missing") as receiver:
        receiver.receive_messages(max_wait_time=1)
