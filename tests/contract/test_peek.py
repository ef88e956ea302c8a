# SPDX-License-Identifier: Apache-2.0
"""Peek: browsing without locks (B-290 to B-301)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock


def test_peek_changes_nothing(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Peek locks nothing and raises no count (B-290)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    for _ in range(20):
        (peeked,) = receiver.peek_messages(sequence_number=1)
        assert (peeked.delivery_count, peeked.lock_token, peeked.locked_until_utc) == (0, None, None)
    assert receive_one(receiver).delivery_count == 0


def test_peek_shows_all_but_dead_letters(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Peek shows active, locked, deferred and scheduled messages with their state, not settled ones (B-291, B-292)."""
    names = ["locked", "deferred", "completed", "dead"]
    sender.send_messages([ServiceBusMessage(name, partition_key="k") for name in names])
    by_name = {str(message): message for message in drain(receiver)}
    receiver.defer_message(by_name["deferred"])
    receiver.complete_message(by_name["completed"])
    receiver.dead_letter_message(by_name["dead"])
    sender.send_messages(ServiceBusMessage(b"active", partition_key="k"))
    sender.schedule_messages(ServiceBusMessage(b"scheduled", partition_key="k"), clock.now() + timedelta(hours=1))
    assert {str(message): message.state for message in peek_all(client, queue_name)} == {
        "locked": ServiceBusMessageState.ACTIVE,
        "deferred": ServiceBusMessageState.DEFERRED,
        "active": ServiceBusMessageState.ACTIVE,
        "scheduled": ServiceBusMessageState.SCHEDULED,
    }
    dead = peek_all(client, queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert [str(message) for message in dead] == ["dead"]


def test_peeked_message_shows_all_it_has(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """Body, properties, number and times can be read from a peeked message (B-290, B-293)."""
    sent_at = clock.now()
    sender.send_messages(
        ServiceBusMessage(
            b"body",
            message_id="1",
            subject="s",
            partition_key="k",
            application_properties={"a": 1},
            time_to_live=timedelta(hours=1),
        )
    )
    (peeked,) = receiver.peek_messages()
    assert b"".join(peeked.body) == b"body"
    assert (peeked.message_id, peeked.subject, peeked.partition_key) == ("1", "s", "k")
    assert peeked.application_properties == {"a": 1}
    assert (peeked.enqueued_time_utc, peeked.expires_at_utc) == (sent_at, sent_at + timedelta(hours=1))
    assert peeked.sequence_number & ((1 << 48) - 1) == 1


def test_empty_queue_peeks_as_an_empty_list(receiver: ServiceBusReceiver) -> None:
    """Peek at an empty queue returns an empty list (B-296)."""
    assert receiver.peek_messages(max_message_count=10) == []
    assert receiver.peek_messages(max_message_count=10, sequence_number=5) == []


def test_default_count_is_one(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """Without a count a peek returns one message (B-294)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
    assert len(receiver.peek_messages()) == 1


@pytest.mark.parametrize("count", [1, 7, 100])
def test_repeated_peeks_show_each_message_once(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, count: int
) -> None:
    """Without a number, a peek continues after this receiver's last peeked message (B-294, B-298)."""
    for number in range(300):
        sender.send_messages(ServiceBusMessage(str(number), partition_key=f"key-{number % 40}"))
    seen = []
    while batch := receiver.peek_messages(max_message_count=count):
        assert len(batch) <= count
        seen += [int(str(message)) for message in batch]
    assert sorted(seen) == list(range(300))


def test_a_loop_peeks_more_than_one_call_returns(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Repeated peeks show a thousand messages once each, at most 250 per call (B-051, B-295, B-298)."""
    for start in range(0, 1000, 50):
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(start, start + 50)])
    assert sorted(int(str(message)) for message in peek_all(client, queue_name)) == list(range(1000))
    with client.get_queue_receiver(queue_name) as browser:
        assert len(browser.peek_messages(max_message_count=1000)) == 250


def test_each_receiver_has_its_own_position(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, client: ServiceBusClient, queue_name: str
) -> None:
    """Each receiver object has its own position (B-294)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
    assert [str(message) for message in receiver.peek_messages(max_message_count=2)] == ["0", "1"]
    with client.get_queue_receiver(queue_name) as other:
        assert [str(message) for message in other.peek_messages(max_message_count=2)] == ["0", "1"]
    assert [str(message) for message in receiver.peek_messages(max_message_count=2)] == ["2"]


def test_peek_at_the_end_sees_later_messages(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """A peek after the end shows messages that were sent later (B-294)."""
    for number in range(40):
        sender.send_messages(ServiceBusMessage(str(number), partition_key=f"key-{number}"))
        (peeked,) = receiver.peek_messages(max_message_count=10)
        assert str(peeked) == str(number)
        assert receiver.peek_messages(max_message_count=10) == []


def test_plain_queue_peeks_in_order(
    client: ServiceBusClient, plain_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Peek at a plain queue shows the oldest messages by number, locked or not (B-293, B-297)."""
    with client.get_queue_sender(plain_queue) as sender, client.get_queue_receiver(plain_queue) as receiver:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(10)])
        receiver.complete_messages(drain(receiver)[:3])
        peeked = receiver.peek_messages(max_message_count=4)
    assert [(str(message), message.sequence_number) for message in peeked] == [("3", 4), ("4", 5), ("5", 6), ("6", 7)]


def test_number_to_start_from_is_inclusive(client: ServiceBusClient, plain_queue: str) -> None:
    """A peek from a number starts with that number or the next existing one (B-293)."""
    with client.get_queue_sender(plain_queue) as sender, client.get_queue_receiver(plain_queue) as receiver:
        sender.send_messages([ServiceBusMessage(b"x") for _ in range(10)])
        receiver.complete_message(receiver.receive_messages(max_wait_time=0)[0])
        for start, expected in ((1, 2), (2, 2), (7, 7), (10, 10)):
            first = receiver.peek_messages(max_message_count=3, sequence_number=start)[0]
            assert first.sequence_number == expected
        assert receiver.peek_messages(max_message_count=3, sequence_number=11) == []


def test_merged_peek_goes_by_time(
    client: ServiceBusClient,
    partitioned_queue: str,
    clock: ManualClock,
    key_in: Callable[..., str],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Without a number, peek merges all partitions, oldest first (B-297, merged policy)."""
    order = [5, 3, 9, 3, 0, 15, 5, 1, 3, 12]
    with client.get_queue_sender(partitioned_queue) as sender:
        for number, partition_id in enumerate(order):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=key_in(partition_id)))
            clock.advance(1)
    peeked = peek_all(client, partitioned_queue)
    assert [(str(message), message.partition_id) for message in peeked] == [
        (str(number), partition_id) for number, partition_id in enumerate(order)
    ]
    with client.get_queue_receiver(partitioned_queue) as browser:
        seen = []
        while batch := browser.peek_messages(max_message_count=3):
            seen += [str(message) for message in batch]
    assert seen == [str(number) for number in range(len(order))]


def test_merged_peek_breaks_ties_by_partition(
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages with equal times are ordered by partition id, then by number (B-297, merged policy)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in (7, 2, 11, 2):
            for _ in range(2):
                sender.send_messages(ServiceBusMessage(b"x", partition_key=key_in(partition_id)))
    peeked = peek_all(client, partitioned_queue)
    assert [message.partition_id for message in peeked] == [2, 2, 2, 2, 7, 7, 11, 11]
    assert [message.sequence_number for message in peeked] == sorted(message.sequence_number for message in peeked)


def test_number_selects_partition_and_position(
    client: ServiceBusClient, partitioned_queue: str, key_in: Callable[..., str]
) -> None:
    """A peek from a number starts in its partition and continues with the next partitions (B-301)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in (12, 4, 9):
            for number in range(3):
                sender.send_messages(ServiceBusMessage(f"{partition_id}.{number}", partition_key=key_in(partition_id)))
    with client.get_queue_receiver(partitioned_queue) as browser:
        peeked = browser.peek_messages(max_message_count=5, sequence_number=(4 << 48) + 2)
        assert [str(message) for message in peeked] == ["4.1", "4.2", "9.0", "9.1", "9.2"]
        peeked = browser.peek_messages(max_message_count=100, sequence_number=(10 << 48) + 1)
        assert [str(message) for message in peeked] == ["12.0", "12.1", "12.2"]
        assert browser.peek_messages(max_message_count=100, sequence_number=(13 << 48) + 1) == []


@pytest.mark.parametrize("count", [1, 3, 100])
def test_paging_by_number_skips_nothing(
    client: ServiceBusClient, partitioned_queue: str, key_in: Callable[..., str], count: int
) -> None:
    """Paging from the last number plus one visits every partition once and then ends (B-300, B-301)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in range(16):
            sender.send_messages([ServiceBusMessage(b"x", partition_key=key_in(partition_id)) for _ in range(2)])
    numbers: list[int] = []
    with client.get_queue_receiver(partitioned_queue) as browser:
        position = 1
        while batch := browser.peek_messages(max_message_count=count, sequence_number=position):
            numbers += [message.sequence_number for message in batch]
            position = numbers[-1] + 1
            assert len(numbers) <= 32
    assert numbers == [(partition_id << 48) + number for partition_id in range(16) for number in (1, 2)]


def test_peek_works_without_a_faulted_partition(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A peek shows the messages of healthy partitions (B-093, B-297)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for _ in range(16):
            sender.send_messages(ServiceBusMessage(b"x"))
    inject_fault(namespace, 6, "unavailable")
    assert {message.partition_id for message in peek_all(client, partitioned_queue)} == set(range(16)) - {6}
    heal(namespace, 6)
    assert len(peek_all(client, partitioned_queue)) == 16


def test_peek_from_one_partition(client: ServiceBusClient, partitioned_queue: str, key_in: Callable[..., str]) -> None:
    """A receiver with `partition_id` peeks at that partition only (B-058; an extension)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in range(16):
            sender.send_messages(ServiceBusMessage(b"x", partition_key=key_in(partition_id)))
    with client.get_queue_receiver(partitioned_queue, partition_id=8) as browser:
        assert [message.partition_id for message in browser.peek_messages(max_message_count=100)] == [8]
        assert oxbus.partition_id(key_in(8)) == 8


@pytest.mark.parametrize("options", [{"max_message_count": -1}, {"timeout": 0}, {"timeout": -1}], ids=str)
def test_bad_options_are_refused(receiver: ServiceBusReceiver, options: dict[str, int]) -> None:
    """A negative count and a timeout of zero or less are ValueErrors as in the SDK (B-295)."""
    with pytest.raises(ValueError, match=next(iter(options))):
        receiver.peek_messages(**options)
