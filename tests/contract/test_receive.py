# SPDX-License-Identifier: Apache-2.0
"""Receiving: modes, counts, waits (B-131 to B-140, B-146 to B-148)."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import MessagingEntityNotFoundError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock


def test_empty_queue_gives_an_empty_list(receiver: ServiceBusReceiver) -> None:
    """A receive that finds nothing and does not wait returns an empty list (B-132)."""
    assert receiver.receive_messages(max_message_count=10, max_wait_time=0) == []


def test_wait_ends_with_an_empty_list(open_namespace: Callable[..., Namespace], partitioned: bool) -> None:
    """A receive on the system clock waits for its time and then returns an empty list (B-132)."""
    namespace = open_namespace()
    ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=partitioned)
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("orders") as receiver:
        assert receiver.receive_messages(max_wait_time=0.05) == []


def test_count_is_an_upper_bound(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A receive returns at most the requested count; repeated receives return the rest (B-135)."""
    for number in range(25):
        sender.send_messages(ServiceBusMessage(str(number)))
    first = receiver.receive_messages(max_message_count=10, max_wait_time=0)
    assert 1 <= len(first) <= 10
    rest = drain(receiver, 10)
    assert sorted(int(str(message)) for message in first + rest) == list(range(25))


def test_default_count_is_one(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """Without a count a receive returns one message (B-135)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
    assert len(receiver.receive_messages(max_wait_time=0)) == 1


def test_peek_lock_is_the_default(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A received message is locked, stays in the queue and returns if it is not settled (B-146)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    message = receive_one(receiver)
    assert message.lock_token is not None
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(61)
    assert receive_one(receiver).sequence_number == message.sequence_number


@pytest.mark.parametrize("mode", [ServiceBusReceiveMode.RECEIVE_AND_DELETE, "receiveanddelete"], ids=["enum", "text"])
def test_receive_and_delete_removes_at_once(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    mode: Any,
) -> None:
    """In receive-and-delete mode a receive removes its messages (B-146, B-147)."""
    for number in range(20):
        sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(queue_name, receive_mode=mode) as receiver:
        messages = drain(receiver)
        assert sorted(int(str(message)) for message in messages) == list(range(20))
        assert {(message.lock_token, message.locked_until_utc) for message in messages} == {(None, None)}
        clock.advance(3600)
        assert drain(receiver) == []
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead_letter"])
def test_receive_and_delete_messages_cannot_be_settled(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    verb: str,
) -> None:
    """Settling or renewing a message without a lock is a ValueError as in the SDK (B-147, B-148)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    with client.get_queue_receiver(queue_name, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        message = receive_one(receiver)
        with pytest.raises(ValueError, match=r"(?i)receive.?and.?delete"):
            getattr(receiver, f"{verb}_message")(message)
        with pytest.raises(ValueError, match=r"(?i)receive.?and.?delete"):
            receiver.renew_message_lock(message)


def test_iteration_ends_when_nothing_comes(sender: ServiceBusSender, client: ServiceBusClient, queue_name: str) -> None:
    """Iterating a receiver yields every message and stops after its wait (B-132)."""
    for number in range(30):
        sender.send_messages(ServiceBusMessage(str(number)))
    with client.get_queue_receiver(queue_name, max_wait_time=0) as receiver:
        seen = []
        for message in receiver:
            receiver.complete_message(message)
            seen.append(int(str(message)))
        assert sorted(seen) == list(range(30))
        assert list(receiver) == []


def test_next_takes_one_message(sender: ServiceBusSender, client: ServiceBusClient, queue_name: str) -> None:
    """`next(receiver)` returns one message and raises StopIteration when the wait ends (B-132)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    with client.get_queue_receiver(queue_name, max_wait_time=0) as receiver:
        assert str(next(receiver)) == "x"
        with pytest.raises(StopIteration):
            next(receiver)


def test_wait_of_the_receiver_is_the_default(
    sender: ServiceBusSender, client: ServiceBusClient, queue_name: str
) -> None:
    """`max_wait_time` of the receiver is the default of its receives (B-132)."""
    with client.get_queue_receiver(queue_name, max_wait_time=0) as receiver:
        assert receiver.receive_messages() == []
        sender.send_messages(ServiceBusMessage(b"x"))
        assert len(receiver.receive_messages()) == 1


def test_expired_messages_are_never_received(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A receive skips messages whose time has passed (B-138)."""
    for number in range(20):
        life = timedelta(seconds=10 if number % 2 else 100)
        sender.send_messages(ServiceBusMessage(str(number), time_to_live=life))
    clock.advance(11)
    assert sorted(int(str(message)) for message in drain(receiver)) == list(range(0, 20, 2))


def test_one_partition_only(
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A receiver with `partition_id` receives from that partition only (B-058; an extension)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in range(16):
            for _ in range(3):
                sender.send_messages(ServiceBusMessage(b"x", partition_key=key_in(partition_id)))
    with client.get_queue_receiver(partitioned_queue, partition_id=9) as receiver:
        assert [message.partition_id for message in drain(receiver)] == [9, 9, 9]
    with client.get_queue_receiver(partitioned_queue) as receiver:
        assert 9 not in {message.partition_id for message in drain(receiver)}


@pytest.mark.parametrize("partition_id", [-1, 16, 1000])
def test_a_partition_that_does_not_exist_is_refused(
    client: ServiceBusClient, partitioned_queue: str, partition_id: int
) -> None:
    """A partition id outside the namespace raises a ValueError that names the number of partitions (B-058)."""
    with (
        pytest.raises(ValueError, match="16"),
        client.get_queue_receiver(partitioned_queue, partition_id=partition_id) as receiver,
    ):
        receiver.receive_messages(max_wait_time=0)


def test_unsettled_messages_stay_locked_when_the_receiver_closes(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A delivered message keeps its lock after its receiver closes, until the lock ends (B-139, B-158)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    with client.get_queue_receiver(queue_name) as other:
        message = receive_one(other)
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(61)
    again = receive_one(receiver)
    assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 1)


def test_closed_receiver_refuses_work(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """After `close`, receiving, peeking and settling raise ValueError; closing twice has no effect (B-139)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    receiver = client.get_queue_receiver(queue_name)
    message = receive_one(receiver)
    receiver.close()
    receiver.close()
    for call in (
        lambda: receiver.receive_messages(max_wait_time=0),
        receiver.peek_messages,
        lambda: receiver.receive_deferred_messages(1),
        lambda: receiver.complete_message(message),
        lambda: receiver.renew_message_lock(message),
    ):
        with pytest.raises(ValueError, match=r"(?i)(closed|shutdown)"):
            call()


def test_closing_ends_a_waiting_receive(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """A waiting receive ends when another thread closes the receiver (B-140, R-21)."""
    receiver = client.get_queue_receiver(queue_name)
    waiting = in_background(receiver.receive_messages, max_wait_time=600)
    receiver.close()
    # A race decides: the wait ends empty, or the call starts on a closed receiver.
    with contextlib.suppress(ValueError):
        assert waiting.result() == []


def test_deleting_the_queue_ends_a_waiting_receive(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """A waiting receive gets an error when its queue is deleted (B-259, R-21)."""
    receiver = client.get_queue_receiver(queue_name)
    waiting = in_background(receiver.receive_messages, max_wait_time=600)
    admin.delete_queue(queue_name)
    with pytest.raises(MessagingEntityNotFoundError):
        waiting.result()


@pytest.mark.parametrize("count", [0, -1])
def test_count_below_one_is_refused(receiver: ServiceBusReceiver, count: int) -> None:
    """A receive of no messages is a ValueError as in the SDK (B-135)."""
    with pytest.raises(ValueError, match="max_message_count"):
        receiver.receive_messages(max_message_count=count, max_wait_time=0)


def test_low_volume_needs_one_receive(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """One receive without a wait finds the only message, in whatever partition it is (B-131, B-132)."""
    for number in range(50):
        sender.send_messages(ServiceBusMessage(str(number)))
        (message,) = receiver.receive_messages(max_wait_time=0)
        assert str(message) == str(number)
        receiver.complete_message(message)
