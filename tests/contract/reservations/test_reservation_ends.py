# SPDX-License-Identifier: Apache-2.0
"""Ends of reservations: completion, single settlements, fencing, cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import (
    CheckpointBehindError,
    InvalidOperationError,
    MessageLockLostError,
    MessagingEntityNotFoundError,
    ReservationFencedError,
)
from reserving import LOCK_SECONDS, Consumer, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")


def test_completed_messages_are_gone(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    """Completing removes the messages up to the number once; the next acquisition returns the completed number."""
    send(30)
    plan = consumer.reserve(1, 10)
    consumer.reserve(2, 10)
    assert consumer.complete(2) == (20, 0)
    assert consumer.complete(2) == (0, 0)
    assert consumer.complete(1) == (0, 0)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 10
    with pytest.raises(MessageLockLostError):
        consumer.bodies(plan)
    assert consumer.listed() == []
    assert make_consumer().done == 2


def test_a_completed_number_is_not_reserved_again(send: Callable[..., None], consumer: Consumer) -> None:
    """Reserving it fails, so a rolled-back checkpoint is detected."""
    send(10)
    consumer.reserve(1)
    consumer.complete(1)
    for call in (consumer.reserve, consumer.plan):
        with pytest.raises(CheckpointBehindError, match="done=1"):
            call(1)


def test_completing_after_expiry_completes_the_messages_still_available(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
) -> None:
    """The result counts messages that other receivers got, since those are processed twice."""
    send(20)
    consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    taken = receiver.receive_messages(max_message_count=3, max_wait_time=0)
    assert len(taken) == 3
    assert consumer.complete(1) == (17, 3)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 3
    receiver.complete_messages(taken)


def test_an_unknown_number_can_be_completed(send: Callable[..., None], consumer: Consumer) -> None:
    """A checkpoint may be ahead of a broker that lost its files."""
    send(5)
    assert consumer.complete(41) == (0, 0)
    assert consumer.reserve(42)["messages"] == 5


@pytest.mark.parametrize("outcome", ["complete", "abandon", "defer", "dead_letter"])
def test_single_messages_are_settled(
    outcome: str,
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    client: ServiceBusClient,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Settled messages leave the reservation: later reads, plans and completions exclude them."""
    send(20)
    plan = consumer.reserve(1)
    why = {"reason": "bad", "description": "worse"} if outcome == "dead_letter" else {}
    some = numbers_of(plan)[3:8]
    assert consumer.settle(plan, some, outcome, **why) == 5
    assert consumer.settle(plan, some, outcome, **why) == 0
    left = consumer.plan(1)
    assert numbers_of(left) == [number for number in numbers_of(plan) if number not in some]
    assert left["missing"] == 0
    assert [row["sequence_number"] for row in consumer.read(plan)] == numbers_of(left)
    clock.advance(LOCK_SECONDS + 1)
    assert numbers_of(consumer.plan(1)) == numbers_of(left)
    assert consumer.complete(1) == (15, 0)
    counts = admin.get_queue_runtime_properties(queue_name)
    expected = {"complete": (0, 0, 0), "abandon": (5, 0, 0), "defer": (5, 5, 0), "dead_letter": (0, 0, 5)}
    found = (counts.active_message_count, counts.deferred_message_count, counts.dead_letter_message_count)
    assert found == expected[outcome]
    if outcome == "abandon":
        assert {message.delivery_count for message in peek_all(client, queue_name)} == {1}
    if outcome == "dead_letter":
        dead = peek_all(client, queue_name, sub_queue="deadletter")
        assert {(it.dead_letter_reason, it.dead_letter_error_description) for it in dead} == {("bad", "worse")}


def test_the_last_acquisition_fences_earlier_ones(
    send: Callable[..., None], consumer: Consumer, make_consumer: Callable[..., Consumer]
) -> None:
    """Calls with an earlier epoch fail, and so do calls for a consumer that was never acquired."""
    send(10)
    plan = consumer.reserve(1)
    second = make_consumer()
    calls: list[Callable[[], object]] = [
        lambda: consumer.reserve(1),
        lambda: consumer.plan(1),
        lambda: consumer.bodies(plan),
        consumer.renew,
        lambda: consumer.complete(1),
        lambda: consumer.settle(plan, numbers_of(plan)[:1], "complete"),
    ]
    for call in calls:
        with pytest.raises(ReservationFencedError, match="epoch=1"):
            call()
    assert numbers_of(second.reserve(1)) == numbers_of(plan)
    consumer.name = "nobody"
    with pytest.raises(ReservationFencedError, match="acquire it first"):
        consumer.reserve(1)
    assert second.complete(1) == (10, 0)


def test_a_restart_is_not_a_delivery(
    make_queue: Callable[..., str],
    namespace: Namespace,
    client: ServiceBusClient,
    receiver: ServiceBusReceiver,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """The plan counts the restarts of a program; no delivery of its messages is counted."""
    name = make_queue("restarted", max_delivery_count=3)
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(b"one"), ServiceBusMessage(b"more")])
    consumer = Consumer(namespace, name)
    plan = consumer.reserve(1)
    assert plan["attempt"] == 1
    for attempt in range(2, 8):
        consumer = Consumer(namespace, name)
        assert consumer.plan(1) == consumer.reserve(1) == plan | {"attempt": attempt}
        assert {row["delivery_count"] for row in consumer.read(plan)} == {0}
        assert receiver.receive_messages(max_wait_time=0) == []
    assert peek_all(client, name, sub_queue="deadletter") == []
    assert consumer.complete(1) == (2, 0)


def test_consumers_compete(send: Callable[..., None], make_consumer: Callable[..., Consumer]) -> None:
    """Two consumers share a queue; a message is in at most one live reservation."""
    send(30)
    one, other = make_consumer("one"), make_consumer("other")
    first, second = one.reserve(1, 10), other.reserve(1, 15)
    assert len({*numbers_of(first), *numbers_of(second)}) == 25
    assert one.listed() == [("one", 1, 10, "live"), ("other", 1, 15, "live")]


def test_cancelling_does_not_count_deliveries(
    send: Callable[..., None],
    consumer: Consumer,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    make_consumer: Callable[..., Consumer],
) -> None:
    """Cancelling drops the reservations and keeps the epoch and the completed number."""
    send(20)
    consumer.reserve(1, 5)
    consumer.complete(1)
    old = consumer.reserve(2)
    assert consumer.handle.cancel_reservation("c") == 15
    assert consumer.listed() == []
    with pytest.raises(InvalidOperationError, match="no reservation"):
        consumer.plan(2)
    messages = drain(receiver)
    assert {message.delivery_count for message in messages} == {0}
    receiver.abandon_messages(messages[:5])
    # The number is free again; a read with the old plan does not return messages of the new one.
    assert consumer.reserve(2)["messages"] == 5
    with pytest.raises(MessageLockLostError):
        consumer.read(old)
    acquired = make_consumer()
    assert (acquired.epoch, acquired.done) == (consumer.epoch + 1, 1)
    with pytest.raises(MessagingEntityNotFoundError, match="no consumer with this name"):
        consumer.handle.cancel_reservation("somebody")
