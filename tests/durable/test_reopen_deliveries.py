# SPDX-License-Identifier: Apache-2.0
"""Locks end with the process that held them, and an unsettled delivery counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, bodies
from oxbus import ServiceBusMessageState
from oxbus.exceptions import MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus

pytestmark = pytest.mark.parametrize("way", WAYS)


def test_unsettled_messages_are_free_at_once(queue: Bus, way: str) -> None:
    """Locked messages are delivered again at once, without waiting for lock expiry, and counted (B-102, B-177)."""
    queue.send(*"abc", partition_key="k")
    messages = queue.take()
    queue.receiver().complete_message(messages[1])
    queue.reopen(way)
    assert queue.runtime().locked_message_count == 0
    again = queue.take()
    assert [(str(message), message.delivery_count) for message in again] == [("a", 1), ("c", 1)]
    assert [message.sequence_number for message in again] == [messages[i].sequence_number for i in (0, 2)]


def test_lock_from_before_the_reopen_settles_nothing(queue: Bus, way: str) -> None:
    """A lock from before the reopen is lost, even while a new receiver holds the message (B-155, B-160)."""
    queue.send("x")
    before = queue.take_one()
    queue.reopen(way)
    with pytest.raises(MessageLockLostError):
        queue.receiver().complete_message(before)
    again = queue.take_one()
    assert again.lock_token != before.lock_token
    for settle in (queue.receiver().complete_message, queue.receiver().renew_message_lock):
        with pytest.raises(MessageLockLostError):
            settle(before)
    assert queue.runtime().locked_message_count == 1
    queue.receiver().complete_message(again)
    assert queue.runtime().total_message_count == 0


def test_each_end_counts_once(queue: Bus, way: str) -> None:
    """An abandon adds one to the count and the end of the process another; an idle reopen adds none (B-177)."""
    queue.send("x")
    for count in range(0, 8, 2):
        message = queue.take_one()
        assert message.delivery_count == count
        queue.receiver().abandon_message(message)
        queue.reopen(way)
        assert queue.take_one().delivery_count == count + 1
        queue.reopen(way)
        queue.reopen(way)
    assert queue.peek()[0].delivery_count == 8


def test_messages_that_were_only_fetched_ahead_do_not_count(queue: Bus, way: str) -> None:
    """Messages in a receiver's cache return without a count; the delivered one counts (B-177)."""
    queue.send(*"abcdef", partition_key="k")
    with queue.client.get_queue_receiver("q", prefetch_count=6) as receiver:
        assert bodies(receiver.receive_messages(max_message_count=1, max_wait_time=5)) == ["a"]
        queue.reopen(way)
    assert [message.delivery_count for message in queue.take()] == [1, 0, 0, 0, 0, 0]


def test_peek_and_renewal_do_not_count(queue: Bus, way: str) -> None:
    """Browsing and renewing do not change the count; the reopen adds one for the one delivery (B-177, B-180)."""
    queue.send("x")
    message = queue.take_one()
    for _ in range(3):
        queue.receiver().renew_message_lock(message)
        queue.peek()
    queue.reopen(way)
    assert queue.peek()[0].delivery_count == 1


def test_message_that_ends_its_process_is_dead_lettered(bus: Bus, way: str, partitioned: bool) -> None:
    """Deliveries that ended with the process count toward the maximum, and no further one happens (B-178)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, max_delivery_count=2)
    bus.send("poison", "after", partition_key="k")
    for count in range(2):
        message = bus.take_one()
        assert (str(message), message.delivery_count) == ("poison", count)
        bus.reopen(way)
    assert bodies(bus.take()) == ["after"]
    dead = bus.take_one(sub_queue="deadletter")
    assert (str(dead), dead.sequence_number, dead.delivery_count) == ("poison", message.sequence_number, 2)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description == "Message could not be consumed after 2 delivery attempts."


def test_dead_letters_count_on(bus: Bus, way: str) -> None:
    """A dead letter that was locked at the end is free again with a higher count, beyond any maximum (B-179)."""
    bus.admin.create_queue("q", max_delivery_count=1)
    bus.send("x")
    bus.receiver().abandon_message(bus.take_one())
    for count in range(1, 5):
        dead = bus.take_one(sub_queue="deadletter")
        assert dead.delivery_count == count
        bus.reopen(way)
    assert bus.runtime().dead_letter_message_count == 1


def test_fetched_deferred_message_stays_deferred(queue: Bus, way: str) -> None:
    """A fetch by number counts at once, and the end of the process adds nothing (B-281, B-282)."""
    queue.send("x")
    message = queue.take_one()
    queue.receiver().defer_message(message)
    for count in range(1, 4):
        (fetched,) = queue.receiver().receive_deferred_messages(message.sequence_number)
        assert (fetched.delivery_count, fetched.state) == (count, ServiceBusMessageState.DEFERRED)
        queue.reopen(way)
        (peeked,) = queue.peek()
        assert (peeked.delivery_count, peeked.state) == (count, ServiceBusMessageState.DEFERRED)
    assert queue.take() == []


def test_high_counts_survive(make_bus: Callable[..., Bus], way: str) -> None:
    """A count of several thousand deliveries is kept (B-029)."""
    bus = make_bus(durability="os")
    bus.open()
    bus.admin.create_queue("q", max_delivery_count=100_000)
    bus.send("x")
    for _ in range(4200):
        bus.receiver().abandon_message(bus.take_one())
    bus.reopen(way)
    message = bus.take_one()
    assert message.delivery_count == 4200
    bus.receiver().abandon_message(message)
    bus.reopen(way)
    assert bus.take_one().delivery_count == 4201
