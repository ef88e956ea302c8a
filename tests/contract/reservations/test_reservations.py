# SPDX-License-Identifier: Apache-2.0
"""Reservations: a consumer holds messages under a number until it completes that number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import InvalidOperationError
from reserving import LOCK_SECONDS, Consumer, names, numbers_of, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceiver
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")


def test_a_number_has_the_same_messages_until_it_is_completed(
    send: Callable[..., None], consumer: Consumer, clock: ManualClock
) -> None:
    """Reserving, planning and reading again return the same messages, even after further sends."""
    send(40)
    plan = consumer.reserve(1, 30)
    assert plan["messages"] == 30
    assert plan["missing"] == 0
    before = consumer.bodies(plan)
    send(10, first=40)
    clock.advance(LOCK_SECONDS / 2)
    assert consumer.reserve(1, 5) == plan
    assert consumer.plan(1) == plan
    assert consumer.bodies(plan) == before == consumer.bodies(plan)
    assert consumer.complete(1) == (30, 0)
    rest = consumer.reserve(2)
    assert sorted([*before, *consumer.bodies(rest)]) == names(50)


def test_messages_come_in_the_order_of_their_numbers(send: Callable[..., None], consumer: Consumer) -> None:
    """Each partition contributes its next messages."""
    send(64)
    plan = consumer.reserve(1, 32)
    rest = numbers_of(consumer.reserve(2))
    for number in numbers_of(plan):
        assert all(number < other for other in rest if partition_of(other) == partition_of(number))


def test_partitions_share_equally(
    namespace: Namespace, partitioned_queue: str, client: ServiceBusClient, key_in: Callable[..., str]
) -> None:
    """A large backlog does not crowd out a small one; shares that a partition does not use go to the others."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition, count in ((1, 500), (2, 100), (3, 10)):
            sender.send_messages([ServiceBusMessage(b"x" * 100, partition_key=key_in(partition)) for _ in range(count)])
    consumer = Consumer(namespace, partitioned_queue)
    plan = consumer.reserve(1, 90)
    assert {part["partition"]: part["messages"] for part in plan["partitions"]} == {1: 40, 2: 40, 3: 10}
    all_bytes = sum(part["bytes"] for part in plan["partitions"])
    half = consumer.reserve(2, 1000, size=all_bytes // 2)
    counts = {part["partition"]: part["messages"] for part in half["partitions"]}
    assert sum(part["bytes"] for part in half["partitions"]) <= all_bytes // 2
    assert set(counts) == {1, 2}
    assert 40 <= sum(counts.values()) <= 46
    assert abs(counts[1] - counts[2]) <= 2


def test_one_message_may_exceed_the_requested_bytes(send: Callable[..., None], consumer: Consumer) -> None:
    """A message larger than the limit is reserved alone, or it never would be."""
    send(3)
    assert consumer.reserve(1, size=1)["messages"] == 1


def test_a_new_number_follows_the_last_one(send: Callable[..., None], consumer: Consumer) -> None:
    """A new number is the last one plus one, and at most two numbers are live at once."""
    send(30)
    with pytest.raises(InvalidOperationError, match="next=1"):
        consumer.reserve(2)
    first = consumer.reserve(1, 10)
    second = consumer.reserve(2, 10)
    assert not set(numbers_of(first)) & set(numbers_of(second))
    with pytest.raises(InvalidOperationError, match="limit=2"):
        consumer.reserve(3)
    assert consumer.complete(1) == (10, 0)
    assert consumer.reserve(3, 10)["messages"] == 10


def test_an_empty_plan_is_not_stored(send: Callable[..., None], consumer: Consumer) -> None:
    """The number stays free."""
    plan = consumer.reserve(1)
    assert (plan["messages"], plan["partitions"]) == (0, [])
    assert consumer.listed() == []
    with pytest.raises(InvalidOperationError, match="no reservation"):
        consumer.plan(1)
    send(1)
    assert consumer.reserve(1)["messages"] == 1


def test_reserving_waits_for_a_first_message(
    send: Callable[..., None], consumer: Consumer, in_background: Callable[..., Any]
) -> None:
    """A message that arrives during the wait ends it."""
    waiting = in_background(consumer.reserve, 1, wait=60.0)
    send(1)
    assert waiting.result()["messages"] == 1


def test_reserving_does_not_starve_a_waiting_receiver(
    send: Callable[..., None], consumer: Consumer, receiver: ServiceBusReceiver, in_background: Callable[..., Any]
) -> None:
    """Two messages sent together go to the waiting consumer and the waiting receiver, one each."""
    reserving = in_background(consumer.reserve, 1, 1, wait=60.0)
    receiving = in_background(receiver.receive_messages, max_wait_time=60)
    send(2)
    assert reserving.result()["messages"] == 1
    assert len(receiving.result()) == 1


def test_prefetched_messages_are_reserved_first(
    send: Callable[..., None], consumer: Consumer, receiver: ServiceBusReceiver
) -> None:
    """Messages in a receive cache are not delivered yet, so they can be reserved."""
    send(100)
    (message,) = receiver.receive_messages(max_wait_time=0)
    assert consumer.reserve(1)["messages"] == 99
    receiver.complete_message(message)


def test_no_number_at_or_above_the_end(send: Callable[..., None], consumer: Consumer) -> None:
    """With an upper bound, a run over the present messages ends, however many arrive later."""
    send(30)
    ends = consumer.handle.ends()
    send(30, first=30)
    plan = consumer.reserve(1, upto=ends)
    assert consumer.bodies(plan) == names(30)
    assert consumer.reserve(2, upto=ends)["messages"] == 0
    assert consumer.reserve(2)["messages"] == 30


def test_latest_skips_existing_messages(
    send: Callable[..., None], make_consumer: Callable[..., Consumer], receiver: ServiceBusReceiver
) -> None:
    """The start of a consumer is fixed when it is first acquired."""
    send(20)
    consumer = make_consumer(start="latest")
    assert consumer.reserve(1)["messages"] == 0
    send(20, first=20)
    consumer = make_consumer(start="earliest")
    plan = consumer.reserve(1, 15)
    rest = consumer.reserve(2)
    assert sorted(consumer.bodies(plan) + consumer.bodies(rest)) == names(20, first=20)
    left = receiver.receive_messages(max_message_count=100, max_wait_time=0)
    assert sorted(str(message) for message in left) == names(20)


def test_latest_skips_older_messages_for_good(
    send: Callable[..., None], make_consumer: Callable[..., Consumer], receiver: ServiceBusReceiver
) -> None:
    """Older messages are not reserved even when they are locked and abandoned; each newer one is reserved once."""
    send(20)
    consumer = make_consumer(start="latest")
    older = receiver.receive_messages(max_message_count=100, max_wait_time=0)
    send(40, first=20)
    bodies = consumer.bodies(consumer.reserve(1, 15))
    for message in older[:10]:
        receiver.abandon_message(message)
    bodies += consumer.bodies(consumer.reserve(2, 10))
    consumer.complete(2)
    assert sorted(str(message) for message in older) == names(20)
    taken = receiver.receive_messages(max_message_count=100, max_wait_time=0)
    for message in older[10:] + [message for message in taken if str(message) in names(20)]:
        receiver.complete_message(message)
    for message in taken:
        if str(message) not in names(20):
            receiver.abandon_message(message)
    bodies += consumer.bodies(consumer.reserve(3))
    assert sorted(bodies) == names(40, first=20)
    assert consumer.complete(3) == (15, 0)
