# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-servicebus SDK: settling, deferring, renewing, and requests over `$management`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient

    Take = Callable[[ServiceBusReceiver, int], list[ServiceBusReceivedMessage]]
    Send = Callable[..., None]


def text(message: ServiceBusReceivedMessage) -> str:
    """The body as text."""
    return b"".join(message.body).decode()


def test_an_abandoned_message_is_delivered_again_and_counted(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """Abandoning releases a message with one more delivery (B-152)."""
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver:
        (first,) = take(receiver, 1)
        receiver.abandon_message(first)
        (again,) = take(receiver, 1)
        assert (again.sequence_number, again.delivery_count) == (first.sequence_number, 1)
        receiver.complete_message(again)


def test_a_message_is_dead_lettered_after_the_last_delivery(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Send, take: Take
) -> None:
    """A message that is abandoned as often as the queue allows is dead-lettered (B-178)."""
    queue = make_queue(max_delivery_count=2)
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver:
        for _ in range(2):
            (message,) = take(receiver, 1)
            receiver.abandon_message(message)
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = take(receiver, 1)
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        receiver.complete_message(message)


def test_deferred_messages_are_fetched_by_their_numbers(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """A deferred message is returned only by a fetch, and is settled like any other (B-276 … B-287, B-431)."""
    send(queue, "a", "b", partition_key="k")
    with client.get_queue_receiver(queue) as receiver:
        messages = take(receiver, 2)
        for message in messages:
            receiver.defer_message(message)
        numbers = [message.sequence_number or 0 for message in messages]
        fetched = receiver.receive_deferred_messages(numbers)
        assert [(text(message), message.state) for message in fetched] == [
            ("a", ServiceBusMessageState.DEFERRED),
            ("b", ServiceBusMessageState.DEFERRED),
        ]
        receiver.complete_message(fetched[0])
        receiver.abandon_message(fetched[1])
        (again,) = receiver.receive_deferred_messages(numbers[1])
        assert again.delivery_count is not None
        assert again.delivery_count >= 1
        receiver.dead_letter_message(again, reason="late")
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(numbers[0])
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = take(receiver, 1)
        assert (text(message), message.dead_letter_reason) == ("b", "late")
        receiver.complete_message(message)


def test_deferred_messages_can_be_received_and_deleted(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """In that mode, fetching a deferred message removes it (B-283)."""
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        receiver.defer_message(message)
    number = message.sequence_number or 0
    with client.get_queue_receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        (fetched,) = receiver.receive_deferred_messages([number])
        assert text(fetched) == "a"
        assert receiver.peek_messages() == []


def test_a_renewed_lock_ends_later(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """Renewing extends the lock and updates the message (B-154)."""
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        before = message.locked_until_utc
        until = receiver.renew_message_lock(message)
        assert before is not None
        assert until >= before
        assert message.locked_until_utc == until
        receiver.complete_message(message)
        assert receiver.peek_messages() == []


def test_the_auto_renewer_keeps_a_lock(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Send, take: Take
) -> None:
    """A lock of five seconds that is renewed still holds after seven (B-154)."""
    queue = make_queue(lock_duration=timedelta(seconds=5))
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver, AutoLockRenewer(max_lock_renewal_duration=60) as renewer:
        (message,) = take(receiver, 1)
        renewer.register(receiver, message)
        assert receiver.receive_messages(max_wait_time=7) == []
        receiver.complete_message(message)
        assert receiver.peek_messages() == []


def test_a_message_is_settled_once(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """A lock whose message was settled over another link is lost (B-155)."""
    send(queue, "a")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        receiver.complete_message(message)
        message._settled = False
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)


def test_a_message_is_settled_after_its_link_is_gone(
    client: ServiceBusClient, queue: str, send: Send, take: Take
) -> None:
    """When the link that received a message is closed, the SDK settles by lock token (B-159) (B-426, B-427)."""
    send(queue, "done", "bad", "back", partition_key="k")
    with client.get_queue_receiver(queue) as receiver:
        done, bad, back = take(receiver, 3)
        link: Any = receiver._handler._link
        link.detach()
        receiver.complete_message(done)
        receiver.dead_letter_message(bad, reason="why", error_description="so")
        receiver.abandon_message(back)
    with client.get_queue_receiver(queue) as receiver:
        (again,) = take(receiver, 1)
        assert (text(again), again.delivery_count) == ("back", 1)
        receiver.complete_message(again)
        assert receiver.peek_messages() == []
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = take(receiver, 1)
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "so")
        receiver.complete_message(message)


def test_peeking_shows_messages_of_every_state(client: ServiceBusClient, queue: str, send: Send, take: Take) -> None:
    """Peeking continues where it ended, shows deferred and scheduled messages, and changes nothing (B-290 … B-298)."""
    due = datetime.now(UTC) + timedelta(hours=1)
    send(queue, "deferred", "active", partition_key="k")
    with client.get_queue_sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("scheduled", partition_key="k"), due)
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        receiver.defer_message(message)
        (first,) = receiver.peek_messages(sequence_number=1)
        rest = receiver.peek_messages(10)
        states = {text(message): message.state for message in [first, *rest]}
        assert states == {
            "deferred": ServiceBusMessageState.DEFERRED,
            "active": ServiceBusMessageState.ACTIVE,
            "scheduled": ServiceBusMessageState.SCHEDULED,
        }
        assert receiver.peek_messages(10) == []
        again = receiver.peek_messages(10, sequence_number=first.sequence_number or 0)
        assert [text(message) for message in again] == [text(message) for message in [first, *rest]]
        assert {message.delivery_count for message in again} == {0}


def test_a_scheduled_message_becomes_active_when_it_is_due(client: ServiceBusClient, queue: str, take: Take) -> None:
    """Scheduled messages get numbers at once and become active later; a cancelled one never does (B-232 … B-240)."""
    due = datetime.now(UTC) + timedelta(seconds=1)
    with client.get_queue_sender(queue) as sender:
        messages = [ServiceBusMessage(name, partition_key="k") for name in ("kept", "cancelled")]
        kept, cancelled = sender.schedule_messages(messages, due)
        (other,) = sender.schedule_messages(ServiceBusMessage("far"), due + timedelta(hours=1))
        sender.cancel_scheduled_messages(cancelled)
        sender.cancel_scheduled_messages([other])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(cancelled)
    assert kept != cancelled
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        assert text(message) == "kept"
        assert message.enqueued_time_utc is not None
        assert message.enqueued_time_utc >= due - timedelta(milliseconds=1)
        receiver.complete_message(message)
        assert receiver.peek_messages() == []


@pytest.mark.usefixtures("spread")
def test_messages_of_two_partitions_are_not_fetched_together(
    client: ServiceBusClient, inside: ServiceBusAdministrationClient, take: Take
) -> None:
    """Deferred messages of several partitions are fetched in several calls (B-279)."""
    queue = "two-partitions"
    inside.create_queue(queue, enable_partitioning=True)
    with client.get_queue_sender(queue) as sender:
        for number in range(2):
            sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(queue) as receiver:
        messages = take(receiver, 2)
        for message in messages:
            receiver.defer_message(message)
        numbers = [message.sequence_number or 0 for message in messages]
        with pytest.raises(ServiceBusError, match="different partitions"):
            receiver.receive_deferred_messages(numbers)
        for number in numbers:
            (fetched,) = receiver.receive_deferred_messages(number)
            receiver.complete_message(fetched)
