# SPDX-License-Identifier: Apache-2.0
"""Entities with reservations, their listing, and refused calls."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
)
from oxbus.management import ReservationProperties
from oxbus.testing import heal, inject_fault
from reserving import LOCK_SECONDS, Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")


def test_reservations_are_listed(send: Callable[..., None], consumer: Consumer, clock: ManualClock) -> None:
    """The list shows consumer, number, epoch, messages, state and expiry."""
    send(10)
    consumer.reserve(1, 4)
    (info,) = consumer.handle.reservations()
    assert info == {
        "consumer": "c",
        "n": 1,
        "epoch": consumer.epoch,
        "done": 0,
        "messages": 4,
        "state": "live",
        "expires_at": clock.now() + timedelta(seconds=LOCK_SECONDS),
    }
    clock.advance(LOCK_SECONDS + 1)
    (info,) = consumer.handle.reservations()
    assert (info["state"], info["messages"], info["expires_at"]) == ("lapsed", 4, None)


def test_a_dead_letter_queue_is_reserved_like_a_queue(
    send: Callable[..., None],
    make_consumer: Callable[..., Consumer],
    receiver: ServiceBusReceiver,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    clock: ManualClock,
    admin: ServiceBusAdministrationClient,
) -> None:
    """Its messages are never dead-lettered again, however often their reservations expire."""
    send(20)
    receiver.dead_letter_messages(drain(receiver), reason="bad")
    consumer = make_consumer(entity=f"{queue_name}/$DeadLetterQueue")
    plan = consumer.reserve(1, 15)
    assert (plan["messages"], {row["dead_letter_reason"] for row in consumer.read(plan)}) == (15, {"bad"})
    for _ in range(12):
        clock.advance(LOCK_SECONDS + 1)
        assert consumer.plan(1)["messages"] == 15
    assert {row["delivery_count"] for row in consumer.read(plan)} == {12}
    # The queue itself has separate consumers.
    assert make_consumer().listed() == []
    assert consumer.complete(1) == (15, 0)
    assert admin.get_queue_runtime_properties(queue_name).dead_letter_message_count == 5


def test_a_subscription_is_reserved_like_a_queue(
    namespace: Namespace, client: ServiceBusClient, topic: str, admin: ServiceBusAdministrationClient
) -> None:
    """A subscription is named by its path."""
    admin.create_subscription(topic, "all")
    with client.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage(b"x") for _ in range(5)])
    consumer = Consumer(namespace, f"{topic}/Subscriptions/all")
    assert consumer.reserve(1)["messages"] == 5
    assert consumer.complete(1) == (5, 0)


def test_entities_that_cannot_be_reserved_are_refused(
    namespace: Namespace, admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], queue_name: str
) -> None:
    """Refused are topics, forwarding, disabled and unknown entities."""
    admin.create_topic("news")
    make_queue("forwarding", forward_to=queue_name)
    for entity in ("news", "forwarding"):
        with pytest.raises(InvalidOperationError):
            Consumer(namespace, entity)
    with pytest.raises(MessagingEntityNotFoundError):
        Consumer(namespace, "nowhere")
    disabled = make_queue("disabled")
    properties = admin.get_queue(disabled)
    properties.status = "ReceiveDisabled"
    admin.update_queue(properties)
    with pytest.raises(MessagingEntityDisabledError):
        Consumer(namespace, disabled)


def test_deleting_an_entity_deletes_its_reservations(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    make_queue: Callable[..., str],
    make_consumer: Callable[..., Consumer],
) -> None:
    """A new entity of the same name has none of them."""
    send(5)
    plan = consumer.reserve(1)
    admin.delete_queue(queue_name)
    with pytest.raises(MessagingEntityNotFoundError):
        consumer.plan(1)
    with pytest.raises(MessagingEntityNotFoundError):
        consumer.bodies(plan)
    make_queue(queue_name)
    acquired = make_consumer()
    assert (acquired.epoch, acquired.done, acquired.listed()) == (1, 0, [])


@pytest.mark.parametrize(
    ("options", "names_it"),
    [
        ({"messages": 0}, "max_messages"),
        ({"messages": 1_000_001}, "max_messages"),
        ({"size": 0}, "max_bytes"),
        ({"lock": 0.1}, "lock_duration"),
        ({"lock": 86_401.0}, "lock_duration"),
        ({"wait": -1.0}, "max_wait_time"),
        ({"upto": [1] * 40}, "upto"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], names_it: str, consumer: Consumer) -> None:
    """The error names the option."""
    with pytest.raises(ValueError, match=names_it):
        consumer.reserve(1, **options)


def test_bad_names_and_numbers_are_refused(make_consumer: Callable[..., Consumer]) -> None:
    """A consumer name has up to 128 characters, numbers begin at 1, and a start is earliest or latest."""
    for name in ("", "x" * 129):
        with pytest.raises(ValueError, match="consumer"):
            make_consumer(name)
    consumer = make_consumer("é" * 128)
    with pytest.raises(ValueError, match="n is"):
        consumer.reserve(0)
    with pytest.raises(ValueError, match="unknown start"):
        make_consumer(start="middle")
    with pytest.raises(ValueError, match="unknown outcome"):
        consumer.handle.settle_reserved("1-0-c", 1, [], "forget")


def test_a_partition_out_of_service_is_skipped(
    namespace: Namespace, partitioned_queue: str, client: ServiceBusClient, key_in: Callable[..., str]
) -> None:
    """A new number gets no messages of it; messages that an earlier number has there wait for it."""
    consumer = Consumer(namespace, partitioned_queue, _home_elsewhere(key_in))
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition in (1, 2):
            sender.send_messages([ServiceBusMessage(b"x", partition_key=key_in(partition)) for _ in range(4)])
        first = consumer.reserve(1, 4)
        inject_fault(namespace, 2, "unavailable")
        second = consumer.reserve(2)
        assert {part["partition"] for part in second["partitions"]} == {1}
        for call in (consumer.plan, consumer.complete):
            with pytest.raises(PartitionUnavailableError):
                call(1)
        heal(namespace, 2)
    assert consumer.plan(1) == first
    assert consumer.complete(2) == (6, 0)
    assert consumer.reserve(3)["messages"] == 2


def _home_elsewhere(key_in: Callable[..., str]) -> str:
    """A consumer name whose partition no test takes out of service."""
    return key_in(5)


def test_administrators_list_and_cancel(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    namespace: Namespace,
) -> None:
    """Management shows the consumer's reservations; the asynchronous client does the same."""
    send(20)
    consumer.reserve(1, 5)
    consumer.complete(1)
    consumer.reserve(2, 12)
    (shown,) = admin.list_reservations(queue_name)
    assert shown == ReservationProperties(
        consumer="c",
        number=2,
        epoch=1,
        completed_number=1,
        message_count=12,
        state="live",
        expires_at_utc=clock.now() + timedelta(seconds=LOCK_SECONDS),
    )
    assert list(admin.list_reservations(queue_name, sub_queue="deadletter")) == []
    with pytest.raises(ValueError, match="dead-letter queue"):
        admin.list_reservations(queue_name, sub_queue="transferdeadletter")

    async def cancel() -> tuple[list[ReservationProperties], int]:
        async with AsyncAdministrationClient(namespace) as later:
            listed = [it async for it in later.list_reservations(queue_name)]
            return listed, await later.cancel_reservation(queue_name, "c")

    assert asyncio.run(cancel()) == ([shown], 12)
    assert admin.cancel_reservation(queue_name, "c") == 0
    assert list(admin.list_reservations(queue_name)) == []
