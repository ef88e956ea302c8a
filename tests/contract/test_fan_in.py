# SPDX-License-Identifier: Apache-2.0
"""Receiving from many partitions at once: fairness, exactly once, waking (B-125, B-131, B-153, R-09, R-21)."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient

PARTITIONS = 16


@pytest.mark.parametrize("prefetch_count", [0, 32])
@pytest.mark.parametrize("count", [1, 16, 100])
def test_hot_partition_does_not_starve_the_others(
    client: ServiceBusClient, partitioned_queue: str, key_in: Callable[..., str], count: int, prefetch_count: int
) -> None:
    """One message in each cold partition is seen early although a hot one holds two thousand (B-121, B-125)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        sender.send_messages([ServiceBusMessage(b"hot", partition_key=key_in(0)) for _ in range(2000)])
        for partition_id in range(1, PARTITIONS):
            sender.send_messages(ServiceBusMessage(b"cold", partition_key=key_in(partition_id)))
    taken: list[ServiceBusReceivedMessage] = []
    with client.get_queue_receiver(partitioned_queue, prefetch_count=prefetch_count) as receiver:
        while len(taken) < 200:
            taken += receiver.receive_messages(max_message_count=count, max_wait_time=0)
    assert {message.partition_id for message in taken} == set(range(PARTITIONS))


def test_steady_load_on_one_partition_does_not_starve_the_others(
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A partition that is refilled after every receive does not starve the others (B-121, B-125)."""
    cold = set(range(1, PARTITIONS))
    with client.get_queue_sender(partitioned_queue) as sender, client.get_queue_receiver(partitioned_queue) as receiver:
        sender.send_messages([ServiceBusMessage(b"hot", partition_key=key_in(0)) for _ in range(10)])
        for partition_id in cold:
            sender.send_messages(ServiceBusMessage(b"cold", partition_key=key_in(partition_id)))
        for _ in range(10 * PARTITIONS):
            cold.discard(receive_one(receiver).partition_id)
            sender.send_messages(ServiceBusMessage(b"hot", partition_key=key_in(0)))
    assert cold == set()


def test_equal_partitions_get_equal_turns(
    client: ServiceBusClient, partitioned_queue: str, key_in: Callable[..., str]
) -> None:
    """With enough messages everywhere, a large receive takes about the same number from each partition (B-121)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in range(PARTITIONS):
            sender.send_messages([ServiceBusMessage(b"x", partition_key=key_in(partition_id)) for _ in range(200)])
    taken: Counter[int | None] = Counter()
    with client.get_queue_receiver(partitioned_queue) as receiver:
        while taken.total() < 1600:
            taken.update(
                message.partition_id for message in receiver.receive_messages(max_message_count=32, max_wait_time=0)
            )
    assert set(taken) == set(range(PARTITIONS))
    assert min(taken.values()) >= 50


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("prefetch_count", [0, 20])
def test_competing_receivers_get_each_message_once(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    in_background: Callable[..., Any],
    mode: ServiceBusReceiveMode,
    prefetch_count: int,
) -> None:
    """Four receivers in four threads get two thousand messages once each, every batch in order (B-153, R-04).

    Cached messages may move to another receiver that finds none, so only batches are in order.
    """
    total = 2000
    for start in range(0, total, 20):
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(start, start + 20)])

    def work() -> list[int]:
        seen = []
        empty = 0
        with client.get_queue_receiver(queue_name, receive_mode=mode, prefetch_count=prefetch_count) as receiver:
            while empty < 20:
                batch = receiver.receive_messages(max_message_count=7, max_wait_time=0)
                empty = 0 if batch else empty + 1
                for partition_id in {message.partition_id for message in batch}:
                    numbers = [message.sequence_number for message in batch if message.partition_id == partition_id]
                    assert numbers == sorted(numbers)
                for message in batch:
                    seen.append(int(str(message)))
                    assert message.delivery_count == 0
                    if mode == ServiceBusReceiveMode.PEEK_LOCK:
                        receiver.complete_message(message)
        return seen

    workers = [in_background(work) for _ in range(4)]
    results = [worker.result() for worker in workers]
    assert sorted(body for result in results for body in result) == list(range(total))
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_messages_sent_while_receiving_all_arrive(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """Two senders and two receivers running together lose and duplicate nothing (R-01, R-04, R-21)."""
    per_sender = 1000
    all_sent = threading.Event()

    def send(name: str) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for number in range(per_sender):
                sender.send_messages(ServiceBusMessage(f"{name}{number}"))

    def receive() -> list[str]:
        seen: list[str] = []
        empty = 0
        with client.get_queue_receiver(queue_name) as receiver:
            while empty < 20:
                batch = receiver.receive_messages(max_message_count=10, max_wait_time=0)
                receiver.complete_messages(batch)
                seen += [str(message) for message in batch]
                empty = empty + 1 if all_sent.is_set() and not batch else 0
        return seen

    receivers = [in_background(receive) for _ in range(2)]
    senders = [in_background(send, name) for name in "ab"]
    for sender in senders:
        sender.result()
    all_sent.set()
    seen = Counter(text for receiver in receivers for text in receiver.result())
    assert seen == Counter(f"{name}{number}" for name in "ab" for number in range(per_sender))


@pytest.mark.parametrize("prefetch_count", [0, 10])
def test_waiting_receive_wakes_when_a_message_arrives(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    in_background: Callable[..., Any],
    prefetch_count: int,
) -> None:
    """A receive that waits ten minutes returns when a message is sent (B-132, R-21)."""
    with client.get_queue_receiver(queue_name, prefetch_count=prefetch_count) as receiver:
        for number in range(20):
            waiting = in_background(receiver.receive_messages, max_wait_time=600)
            sender.send_messages(ServiceBusMessage(str(number)))
            (message,) = waiting.result()
            assert str(message) == str(number)
            receiver.complete_message(message)


def test_waiting_receive_wakes_when_a_message_is_abandoned(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    in_background: Callable[..., Any],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """An abandoned message goes at once to a waiting receiver (B-163, R-21)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    message = receive_one(receiver)
    with client.get_queue_receiver(queue_name) as other:
        waiting = in_background(other.receive_messages, max_wait_time=600)
        receiver.abandon_message(message)
        (again,) = waiting.result()
    assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 1)


def test_every_waiting_receiver_gets_a_message(
    sender: ServiceBusSender, client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """Each arriving message wakes one waiting receiver (B-132, R-21)."""
    receivers = [client.get_queue_receiver(queue_name) for _ in range(8)]
    waiting = [in_background(receiver.receive_messages, max_wait_time=600) for receiver in receivers]
    for number in range(8):
        sender.send_messages(ServiceBusMessage(str(number)))
    bodies = [[str(message) for message in call.result()] for call in waiting]
    assert sorted(bodies) == [[str(number)] for number in range(8)]


def test_a_batch_wakes_one_waiting_receiver_for_each_message(
    sender: ServiceBusSender, client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """One batch of eight messages serves eight waiting receivers (B-132, R-21)."""
    receivers = [client.get_queue_receiver(queue_name) for _ in range(8)]
    waiting = [in_background(receiver.receive_messages, max_wait_time=600) for receiver in receivers]
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(8)])
    bodies = [[str(message) for message in call.result()] for call in waiting]
    assert sorted(bodies) == [[str(number)] for number in range(8)]


def test_one_receiver_may_be_shared_by_threads(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, in_background: Callable[..., Any]
) -> None:
    """Threads that share a receiver get each message once (B-153)."""
    for number in range(400):
        sender.send_messages(ServiceBusMessage(str(number)))

    def work() -> list[int]:
        seen = []
        empty = 0
        while empty < 20:
            batch = receiver.receive_messages(max_message_count=3, max_wait_time=0)
            empty = 0 if batch else empty + 1
            seen += [int(str(message)) for message in batch]
            receiver.complete_messages(batch)
        return seen

    workers = [in_background(work) for _ in range(4)]
    assert sorted(number for worker in workers for number in worker.result()) == list(range(400))
