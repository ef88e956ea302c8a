# SPDX-License-Identifier: Apache-2.0
"""Reservations: a consumer has messages under a number until it completes that number."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from oxbus.exceptions import (
    CheckpointBehindError,
    InvalidOperationError,
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
    ReservationFencedError,
)
from oxbus.management import ReservationProperties
from oxbus.testing import heal, inject_fault
from reserving import LOCK_SECONDS, Consumer, numbers_of, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")


@pytest.fixture
def send(sender: ServiceBusSender) -> Callable[..., None]:
    """Send messages "0" up to the given number, each in a call of its own so that partitions take turns."""

    def send(count: int, first: int = 0, **options: Any) -> None:
        for number in range(first, first + count):
            sender.send_messages(ServiceBusMessage(f"{number:04}", **options))

    return send


@pytest.fixture
def make_consumer(namespace: Namespace, queue_name: str) -> Callable[..., Consumer]:
    """Acquire a consumer of the queue."""

    def make(name: str = "c", entity: str | None = None, start: str = "earliest") -> Consumer:
        return Consumer(namespace, entity or queue_name, name, start)

    return make


@pytest.fixture
def consumer(make_consumer: Callable[..., Consumer]) -> Consumer:
    """A consumer of the queue."""
    return make_consumer()


def names(count: int, first: int = 0) -> list[str]:
    """The bodies of that many messages."""
    return [f"{number:04}" for number in range(first, first + count)]


# What a number has.


def test_a_number_has_the_same_messages_until_it_is_completed(
    send: Callable[..., None], consumer: Consumer, clock: ManualClock
) -> None:
    """Reserving, planning and reading again changes nothing, whatever comes in meanwhile."""
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
    """Each partition gives its next ones."""
    send(64)
    plan = consumer.reserve(1, 32)
    rest = numbers_of(consumer.reserve(2))
    for number in numbers_of(plan):
        assert all(number < other for other in rest if partition_of(other) == partition_of(number))


def test_partitions_share_equally(
    namespace: Namespace, partitioned_queue: str, client: ServiceBusClient, key_in: Callable[..., str]
) -> None:
    """A partition with much does not push out one with little; what one does not use the others have."""
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


def test_one_message_may_have_more_bytes_than_are_wished(send: Callable[..., None], consumer: Consumer) -> None:
    """Otherwise it would never be reserved."""
    send(3)
    assert consumer.reserve(1, size=1)["messages"] == 1


def test_numbers_follow_each_other(send: Callable[..., None], consumer: Consumer) -> None:
    """A new one is the one behind the last; the batch at hand and the next one may be there at once, not more."""
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


def test_an_empty_queue_gives_a_plan_that_is_stored_nowhere(send: Callable[..., None], consumer: Consumer) -> None:
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
    """A message that comes within the wait ends it."""
    waiting = in_background(consumer.reserve, 1, wait=60.0)
    send(1)
    assert waiting.result()["messages"] == 1


def test_a_receiver_that_waits_too_is_not_forgotten(
    send: Callable[..., None], consumer: Consumer, receiver: ServiceBusReceiver, in_background: Callable[..., Any]
) -> None:
    """Of two messages that come together, each of two who wait gets one."""
    reserving = in_background(consumer.reserve, 1, 1, wait=60.0)
    receiving = in_background(receiver.receive_messages, max_wait_time=60)
    send(2)
    assert reserving.result()["messages"] == 1
    assert len(receiving.result()) == 1


def test_what_stands_in_a_cache_is_reserved_first(
    send: Callable[..., None], consumer: Consumer, receiver: ServiceBusReceiver
) -> None:
    """A receiver that prefetched has handed it to nobody."""
    send(100)
    (message,) = receiver.receive_messages(max_wait_time=0)
    assert consumer.reserve(1)["messages"] == 99
    receiver.complete_message(message)


def test_no_number_at_or_above_the_end(send: Callable[..., None], consumer: Consumer) -> None:
    """A run that takes what is there now ends, however much comes in."""
    send(30)
    ends = consumer.handle.ends()
    send(30, first=30)
    plan = consumer.reserve(1, upto=ends)
    assert consumer.bodies(plan) == names(30)
    assert consumer.reserve(2, upto=ends)["messages"] == 0
    assert consumer.reserve(2)["messages"] == 30


def test_latest_leaves_what_was_there(
    send: Callable[..., None], make_consumer: Callable[..., Consumer], receiver: ServiceBusReceiver
) -> None:
    """Where a consumer begins is settled once, when it is acquired first."""
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


# Reserved messages.


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
    """Nobody else gets them, everybody sees them, and they count as locked."""
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
    """Their time to live is over for others only, once they are back."""
    send(10, time_to_live=timedelta(seconds=30))
    plan = consumer.reserve(1, 6)
    clock.advance(40)
    assert receiver.receive_messages(max_wait_time=0) == []
    assert len(consumer.bodies(plan)) == 6
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.plan(1)["missing"] == 6


def test_all_columns_are_read(consumer: Consumer, sender: ServiceBusSender, partitioned: bool) -> None:
    """A reserved message has the columns of a received one, without a lock of its own."""
    sender.send_messages(ServiceBusMessage(b"body", subject="s", application_properties={"a": 1}))
    plan = consumer.reserve(1)
    (row,) = consumer.read(plan)
    assert (row["body"], row["subject"], row["application_properties"]) == (b"body", "s", [("a", "1")])
    assert (row["lock_token"], row["locked_until_utc"], row["delivery_count"]) == (None, None, 0)
    assert row["sequence_number"] == numbers_of(plan)[0]
    assert (row["partition_id"] is not None) is partitioned
    (row,) = consumer.read(plan, include_body=False)
    assert (row["body"], row["subject"]) == (None, "s")


def test_pages_end_at_the_bytes_asked_for(sender: ServiceBusSender, consumer: Consumer) -> None:
    """A page has at least one message, and all pages together have each message once."""
    for number in range(60):
        sender.send_messages(ServiceBusMessage(f"{number:04}" * 100))
    plan = consumer.reserve(1)
    whole = consumer.bodies(plan)
    for size in (1, 1000, 5000):
        assert sorted(row["body"].decode() for row in consumer.read(plan, max_bytes=size)) == whole


def test_read_refuses_numbers_of_another_partition(send: Callable[..., None], consumer: Consumer) -> None:
    """A slip in the arithmetic of numbers is told, not answered with nothing."""
    send(1)
    plan = consumer.reserve(1)
    low = plan["partitions"][0]["ranges"][0][0]
    with pytest.raises(ValueError, match="not a sequence number of that partition"):
        consumer.handle.read(plan["id"], consumer.epoch, plan["partitions"][0]["partition"] + 1, low, low)
    with pytest.raises(ValueError, match="not the id of a reservation"):
        consumer.handle.read("nonsense", consumer.epoch, 0, low, low)


# Lapsing.


def test_a_lapsed_reservation_gives_its_messages_back(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Each is charged a delivery; the number finds what nobody took, and nothing comes back to it."""
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
    # A message that comes back is not its any more: the batch was handled without it.
    receiver.abandon_messages(taken)
    clock.advance(LOCK_SECONDS + 1)
    once_more = consumer.reserve(1)
    assert numbers_of(once_more) == numbers_of(again)
    assert once_more["missing"] == len(taken)
    assert len(drain(receiver)) == len(taken)


def test_what_lapsed_often_enough_is_dead_lettered(
    make_queue: Callable[..., str],
    namespace: Namespace,
    client: ServiceBusClient,
    clock: ManualClock,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """As when the lock of a receiver ends."""
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


def test_reservations_hold_as_long_as_they_are_renewed(
    send: Callable[..., None], consumer: Consumer, clock: ManualClock
) -> None:
    """One call renews all; reserving, planning and reading renew, too."""
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


def test_a_receiver_that_waits_gets_what_lapses(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    in_background: Callable[..., Any],
) -> None:
    """Nobody has to call for the consumer."""
    send(1)
    consumer.reserve(1)
    waiting = in_background(receiver.receive_messages, max_wait_time=60)
    clock.advance(LOCK_SECONDS + 1)
    while waiting.running:
        clock.advance(0.001)
    assert len(waiting.result()) == 1


# Completing.


def test_completed_messages_are_gone(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    """Up to the number, once; what was done is known to the next one who acquires."""
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
    """A checkpoint that was rolled back is told."""
    send(10)
    consumer.reserve(1)
    consumer.complete(1)
    for call in (consumer.reserve, consumer.plan):
        with pytest.raises(CheckpointBehindError, match="done=1"):
            call(1)


def test_completing_after_a_lapse_takes_what_nobody_took(
    send: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
) -> None:
    """What others took is told: it is handled twice."""
    send(20)
    consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    taken = receiver.receive_messages(max_message_count=3, max_wait_time=0)
    assert len(taken) == 3
    assert consumer.complete(1) == (17, 3)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 3
    receiver.complete_messages(taken)


def test_a_number_that_was_never_reserved_here_counts_as_done(send: Callable[..., None], consumer: Consumer) -> None:
    """A checkpoint may know more than a broker that lost its files."""
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
    """They leave the reservation for good: later reads, plans and completions are without them."""
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


# Who speaks for a consumer.


def test_who_acquired_last_speaks_for_the_consumer(
    send: Callable[..., None], consumer: Consumer, make_consumer: Callable[..., Consumer]
) -> None:
    """Every call under an earlier epoch is refused, and one under none that was given out."""
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


def test_a_program_that_begins_anew_is_another_delivery(
    make_queue: Callable[..., str],
    namespace: Namespace,
    client: ServiceBusClient,
    receiver: ServiceBusReceiver,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages that take their program down go to the dead-letter queue when it comes back, never while it works."""
    name = make_queue("poisoned", max_delivery_count=3)
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(b"poison"), ServiceBusMessage(b"more")])
    consumer = Consumer(namespace, name)
    plan = consumer.reserve(1)
    for count in (1, 2):
        consumer = Consumer(namespace, name)
        assert consumer.plan(1) == plan
        assert consumer.reserve(1) == plan
        assert {row["delivery_count"] for row in consumer.read(plan)} == {count}
        assert receiver.receive_messages(max_wait_time=0) == []
    assert peek_all(client, name, sub_queue="deadletter") == []
    consumer = Consumer(namespace, name)
    assert (consumer.plan(1)["messages"], consumer.plan(1)["missing"]) == (0, 2)
    assert len(peek_all(client, name, sub_queue="deadletter")) == 2
    assert consumer.complete(1) == (0, 0)


def test_consumers_compete(send: Callable[..., None], make_consumer: Callable[..., Consumer]) -> None:
    """Two consumers share a queue; a message is in one live reservation at most."""
    send(30)
    one, other = make_consumer("one"), make_consumer("other")
    first, second = one.reserve(1, 10), other.reserve(1, 15)
    assert len({*numbers_of(first), *numbers_of(second)}) == 25
    assert one.listed() == [("one", 1, 10, "live"), ("other", 1, 15, "live")]


# Management.


def test_cancelled_messages_go_back_uncharged(
    send: Callable[..., None],
    consumer: Consumer,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    make_consumer: Callable[..., Consumer],
) -> None:
    """What was reserved is forgotten; who speaks for the consumer and what is done is not."""
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
    # The number is free again, and who still reads the old one does not get the new one's messages.
    assert consumer.reserve(2)["messages"] == 5
    with pytest.raises(MessageLockLostError):
        consumer.read(old)
    acquired = make_consumer()
    assert (acquired.epoch, acquired.done) == (consumer.epoch + 1, 1)
    with pytest.raises(MessagingEntityNotFoundError, match="no consumer of that name"):
        consumer.handle.cancel_reservation("somebody")


def test_reservations_are_listed(send: Callable[..., None], consumer: Consumer, clock: ManualClock) -> None:
    """Consumer, number, epoch, messages, state and end."""
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


# Entities.


def test_a_dead_letter_queue_is_reserved_like_a_queue(
    send: Callable[..., None],
    make_consumer: Callable[..., Consumer],
    receiver: ServiceBusReceiver,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    clock: ManualClock,
    admin: ServiceBusAdministrationClient,
) -> None:
    """Its messages are never dead-lettered again, however often they lapse."""
    send(20)
    receiver.dead_letter_messages(drain(receiver), reason="bad")
    consumer = make_consumer(entity=f"{queue_name}/$DeadLetterQueue")
    plan = consumer.reserve(1, 15)
    assert (plan["messages"], {row["dead_letter_reason"] for row in consumer.read(plan)}) == (15, {"bad"})
    for _ in range(12):
        clock.advance(LOCK_SECONDS + 1)
        assert consumer.plan(1)["messages"] == 15
    assert {row["delivery_count"] for row in consumer.read(plan)} == {12}
    # The queue itself has consumers of its own.
    assert make_consumer().listed() == []
    assert consumer.complete(1) == (15, 0)
    assert admin.get_queue_runtime_properties(queue_name).dead_letter_message_count == 5


def test_a_subscription_is_reserved_like_a_queue(
    namespace: Namespace, client: ServiceBusClient, topic: str, admin: ServiceBusAdministrationClient
) -> None:
    """By its path."""
    admin.create_subscription(topic, "all")
    with client.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage(b"x") for _ in range(5)])
    consumer = Consumer(namespace, f"{topic}/Subscriptions/all")
    assert consumer.reserve(1)["messages"] == 5
    assert consumer.complete(1) == (5, 0)


def test_what_cannot_be_reserved_is_refused(
    namespace: Namespace, admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], queue_name: str
) -> None:
    """Topics, what is received by session, what forwards, what is disabled, what is not there."""
    admin.create_topic("news")
    make_queue("by-session", requires_session=True)
    make_queue("forwarding", forward_to=queue_name)
    for entity in ("news", "by-session", "forwarding"):
        with pytest.raises(InvalidOperationError):
            Consumer(namespace, entity)
    with pytest.raises(MessagingEntityNotFoundError):
        Consumer(namespace, "nowhere")
    # Its dead-letter queue is not received by session.
    Consumer(namespace, "by-session/$deadletterqueue")
    disabled = make_queue("disabled")
    properties = admin.get_queue(disabled)
    properties.status = "ReceiveDisabled"
    admin.update_queue(properties)
    with pytest.raises(MessagingEntityDisabledError):
        Consumer(namespace, disabled)


def test_a_deleted_entity_takes_its_reservations_along(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    make_queue: Callable[..., str],
    make_consumer: Callable[..., Consumer],
) -> None:
    """Another one of the same name knows nothing of them."""
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
def test_bad_wishes_are_refused(options: dict[str, Any], names_it: str, consumer: Consumer) -> None:
    """The error names the option."""
    with pytest.raises(ValueError, match=names_it):
        consumer.reserve(1, **options)


def test_bad_names_and_numbers_are_refused(make_consumer: Callable[..., Consumer]) -> None:
    """A consumer has a name of up to 128 characters, numbers begin at 1, and a start is one of two words."""
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


# Partitions that fail.


def test_a_partition_out_of_service_is_left_out(
    namespace: Namespace, partitioned_queue: str, client: ServiceBusClient, key_in: Callable[..., str]
) -> None:
    """It gives nothing to a new number; what it gave to an earlier one waits for it."""
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
    """The name of a consumer that is kept in a partition which no test takes out of service."""
    return key_in(5)


# The administration clients.


def test_administrators_list_and_cancel(
    send: Callable[..., None],
    consumer: Consumer,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    namespace: Namespace,
) -> None:
    """What management sees is what the consumer has; the asynchronous client does the same."""
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
