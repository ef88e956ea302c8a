# SPDX-License-Identifier: Apache-2.0
"""Reserved messages are locked, can be read, and return when the reservation expires."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import MessageLockLostError
from reserving import LOCK_SECONDS, Consumer, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")


def test_reserved_messages_are_locked(
    send: Callable[..., None],
    consumer: Consumer,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Receivers do not get them, peek shows them, and they count as locked."""
    send(20)
    plan = consumer.reserve(1, 12)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.active_message_count, counts.locked_message_count) == (20, 12)
    assert len(peek_all(client, queue_name)) == 20
    taken = {message.sequence_number for message in drain(receiver)}
    assert len(taken) == 8
    assert not taken & set(numbers_of(plan))
    assert admin.purge_messages(queue_name) == 0


def test_reserved_messages_do_not_expire(
    send: Callable[..., None], consumer: Consumer, clock: ManualClock, receiver: ServiceBusReceiver
) -> None:
    """Their time to live takes effect only after they return."""
    send(10, time_to_live=timedelta(seconds=30))
    plan = consumer.reserve(1, 6)
    clock.advance(40)
    assert receiver.receive_messages(max_wait_time=0) == []
    assert len(consumer.bodies(plan)) == 6
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.plan(1)["missing"] == 6


def test_all_columns_are_read(consumer: Consumer, sender: ServiceBusSender, partitioned: bool) -> None:
    """A reserved message has the columns of a received one, with null lock columns."""
    sender.send_messages(ServiceBusMessage(b"body", subject="s", application_properties={"a": 1}))
    plan = consumer.reserve(1)
    (row,) = consumer.read(plan)
    assert (row["body"], row["subject"], row["application_properties"]) == (b"body", "s", [("a", "1")])
    assert (row["lock_token"], row["locked_until_utc"], row["delivery_count"]) == (None, None, 0)
    assert row["sequence_number"] == numbers_of(plan)[0]
    assert (row["partition_id"] is not None) is partitioned
    (row,) = consumer.read(plan, include_body=False)
    assert (row["body"], row["subject"]) == (None, "s")


def test_pages_end_at_the_requested_bytes(sender: ServiceBusSender, consumer: Consumer) -> None:
    """A page has at least one message; together the pages have each message once."""
    for number in range(60):
        sender.send_messages(ServiceBusMessage(f"{number:04}" * 100))
    plan = consumer.reserve(1)
    whole = consumer.bodies(plan)
    for size in (1, 1000, 5000):
        assert sorted(row["body"].decode() for row in consumer.read(plan, max_bytes=size)) == whole


def test_read_refuses_numbers_of_another_partition(send: Callable[..., None], consumer: Consumer) -> None:
    """A wrong number is an error, not an empty result."""
    send(1)
    plan = consumer.reserve(1)
    low = plan["partitions"][0]["ranges"][0][0]
    with pytest.raises(ValueError, match="not a sequence number of that partition"):
        consumer.handle.read(plan["id"], consumer.epoch, plan["partitions"][0]["partition"] + 1, low, low)
    with pytest.raises(ValueError, match="not the id of a reservation"):
        consumer.handle.read("nonsense", consumer.epoch, 0, low, low)


def test_an_expired_reservation_returns_its_messages(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Each message counts a delivery; the number then covers only messages that no other receiver got."""
    send(20)
    plan = consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLostError):
        consumer.bodies(plan)
    with pytest.raises(MessageLockLostError):
        consumer.renew()
    assert consumer.listed() == [("c", 1, 20, "lapsed")]
    taken = receiver.receive_messages(max_message_count=5, max_wait_time=0)
    assert {message.delivery_count for message in taken} == {1}
    again = consumer.plan(1)
    assert again["missing"] == len(taken)
    assert again["messages"] == 20 - len(taken)
    assert {row["delivery_count"] for row in consumer.read(again)} == {1}
    # A message that was received elsewhere does not return to the number: the batch was processed without it.
    receiver.abandon_messages(taken)
    clock.advance(LOCK_SECONDS + 1)
    once_more = consumer.reserve(1)
    assert numbers_of(once_more) == numbers_of(again)
    assert once_more["missing"] == len(taken)
    assert len(drain(receiver)) == len(taken)


def test_messages_whose_reservations_expire_too_often_are_dead_lettered(
    make_queue: Callable[..., str],
    namespace: Namespace,
    client: ServiceBusClient,
    clock: ManualClock,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """An expired reservation counts like an expired lock."""
    name = make_queue(max_delivery_count=2)
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(b"poison")])
    consumer = Consumer(namespace, name)
    for missing in (0, 0, 1):
        assert consumer.reserve(1)["missing"] == missing
        clock.advance(LOCK_SECONDS + 1)
        consumer.listed()
    (dead,) = peek_all(client, name, sub_queue="deadletter")
    assert (dead.dead_letter_reason, dead.delivery_count) == ("MaxDeliveryCountExceeded", 2)


def test_renewed_reservations_do_not_expire(send: Callable[..., None], consumer: Consumer, clock: ManualClock) -> None:
    """One call renews all; reserving, planning and reading renew as well."""
    send(20)
    plans = [consumer.reserve(1, 10), consumer.reserve(2, 10)]
    for _ in range(3):
        clock.advance(LOCK_SECONDS - 1)
        consumer.renew()
    clock.advance(LOCK_SECONDS - 1)
    assert [len(consumer.bodies(plan)) for plan in plans] == [10, 10]
    clock.advance(LOCK_SECONDS - 1)
    consumer.reserve(1)
    consumer.bodies(plans[1])
    clock.advance(LOCK_SECONDS - 1)
    assert [len(consumer.bodies(plan)) for plan in plans] == [10, 10]


def test_a_waiting_receiver_gets_messages_of_an_expired_reservation(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    in_background: Callable[..., Any],
) -> None:
    """No call of the consumer is needed."""
    send(1)
    consumer.reserve(1)
    waiting = in_background(receiver.receive_messages, max_wait_time=60)
    clock.advance(LOCK_SECONDS + 1)
    while waiting.running:
        clock.advance(0.001)
    assert len(waiting.result()) == 1
