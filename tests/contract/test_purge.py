# SPDX-License-Identifier: Apache-2.0
"""Purge: removing many messages in one call (B-401 to B-406)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import (
    InvalidOperationError,
    InvalidRuleError,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)
from oxbus.management import EntityStatus, SqlRuleFilter
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


def fill(sender: ServiceBusSender, count: int, **options: Any) -> None:
    """Send messages "0", "1", … with their number as a property."""
    for number in range(count):
        sender.send_messages(ServiceBusMessage(str(number), application_properties={"n": number}, **options))


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, sorted as numbers."""
    return sorted((str(message) for message in messages), key=int)


def test_everything_is_purged(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
    client: ServiceBusClient,
) -> None:
    """One call removes any number of messages, partitioned or not (B-401, B-404, B-405)."""
    for start in range(0, 700, 100):
        batch = [ServiceBusMessage(str(start + number)) for number in range(100)]
        sender.send_messages(batch)
    assert admin.purge_messages(queue_name) == 700
    assert peek_all(client, queue_name) == []
    assert receiver.receive_messages(max_wait_time=0) == []
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.total_message_count, counts.size_in_bytes) == (0, 0)
    assert admin.purge_messages(queue_name) == 0
    sender.send_messages(ServiceBusMessage(b"later"))
    assert len(receiver.receive_messages(max_wait_time=0)) == 1


def test_unavailable_messages_stay(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Locked, deferred and scheduled messages stay, and locks stay valid (B-402)."""
    fill(sender, 20)
    messages = drain(receiver)
    locked, deferred = messages[:5], messages[5:10]
    receiver.defer_messages(deferred)
    receiver.abandon_messages(messages[10:])
    sender.schedule_messages(ServiceBusMessage(b"later"), clock.now() + timedelta(hours=1))
    assert admin.purge_messages(queue_name) == 10
    counts = admin.get_queue_runtime_properties(queue_name)
    assert counts.locked_message_count == 5
    assert counts.deferred_message_count == 5
    assert counts.scheduled_message_count == 1
    receiver.complete_messages(locked)
    for message in deferred:
        (fetched,) = receiver.receive_deferred_messages(message.sequence_number)
        receiver.complete_message(fetched)
    assert admin.purge_messages(queue_name) == 0
    clock.advance(3600)
    assert admin.purge_messages(queue_name) == 1


def test_filter_selects(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Only selected messages are removed; others keep their order and delivery count (B-405)."""
    fill(sender, 40)
    before = {str(message): message.sequence_number for message in receiver.peek_messages(max_message_count=100)}
    assert admin.purge_messages(queue_name, where=SqlRuleFilter("n % 2 = 0")) == 20
    left = drain(receiver)
    assert texts(left) == [str(number) for number in range(1, 40, 2)]
    assert {message.delivery_count for message in left} == {0}
    assert all(before[str(message)] == message.sequence_number for message in left)


def test_filter_with_parameters_and_system_properties(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """A filter has the full language of rules, with parameters and `sys.` (B-364, B-374, B-405)."""
    fill(sender, 10, subject="old")
    fill(sender, 10, subject="new")
    where = SqlRuleFilter("sys.Label = @label AND n < @n", parameters={"@label": "old", "@n": 4})
    assert admin.purge_messages(queue_name, where=where) == 4


def test_messages_the_filter_fails_for_stay(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """A message for which the filter fails or is unknown is not selected (B-370, B-372, B-405)."""
    fill(sender, 3)
    assert admin.purge_messages(queue_name, where=SqlRuleFilter("sys.NoSuchThing = 1")) == 0
    assert admin.purge_messages(queue_name, where=SqlRuleFilter("missing = 1")) == 0
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 3


def test_cutoff(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Only messages enqueued before the cutoff are removed (B-402)."""
    fill(sender, 5)
    clock.advance(10)
    cutoff = clock.now()
    fill(sender, 5)
    assert admin.purge_messages(queue_name, before_enqueued_time_utc=cutoff - timedelta(seconds=10)) == 0
    assert admin.purge_messages(queue_name, before_enqueued_time_utc=cutoff) == 5
    assert {message.enqueued_time_utc for message in drain(receiver)} == {cutoff}


@pytest.mark.parametrize(("limit", "removed"), [(0, 0), (1, 1), (7, 7), (40, 40), (1000, 40)])
def test_limit(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, limit: int, removed: int
) -> None:
    """At most the given number is removed (B-402, B-403)."""
    fill(sender, 40)
    assert admin.purge_messages(queue_name, limit=limit) == removed
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 40 - removed


def test_oldest_go_first(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """With a limit, the lowest numbers of a partition are removed; the rest is received in order (B-402)."""
    fill(sender, 20, partition_key="k")
    assert admin.purge_messages(queue_name, limit=5, where=SqlRuleFilter("n <> 2")) == 5
    assert [str(message) for message in drain(receiver)] == ["2", *map(str, range(6, 20))]


def test_prefetched_messages_are_purged(
    sender: ServiceBusSender,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    client: ServiceBusClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Undelivered prefetched messages are removed too; nothing is delivered twice (B-402)."""
    fill(sender, 60)
    with client.get_queue_receiver(queue_name, prefetch_count=50) as receiver:
        (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
        removed = admin.purge_messages(queue_name, where=SqlRuleFilter("n >= 30"))
        left = [first, *drain(receiver)]
        assert len(left) == len({message.sequence_number for message in left}) == 60 - removed
        assert removed in (29, 30)
        receiver.complete_messages(left)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_dead_letters(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    client: ServiceBusClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """`sub_queue` purges the dead-letter queue, optionally by reason, and not the queue itself (B-402)."""
    fill(sender, 12)
    messages = drain(receiver)
    receiver.dead_letter_messages(messages[:4], reason="bad")
    receiver.dead_letter_messages(messages[4:8], reason="worse")
    receiver.abandon_messages(messages[8:])
    with client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead:
        locked = drain(dead)[0]
        others = [message for message in drain(dead) if message.sequence_number != locked.sequence_number]
        dead.abandon_messages(others)
        where = SqlRuleFilter("DeadLetterReason = 'bad'")
        assert admin.purge_messages(queue_name, sub_queue="deadletter", where=where) <= 4
        admin.purge_messages(queue_name, sub_queue="deadletter")
        assert admin.get_queue_runtime_properties(queue_name).dead_letter_message_count >= 1
        dead.complete_message(locked)
    assert admin.get_queue_runtime_properties(queue_name).active_message_count == 4


def test_dead_letters_by_their_reason(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
    client: ServiceBusClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A filter can use the dead-letter reason as a property (B-263, B-402)."""
    fill(sender, 9)
    messages = drain(receiver)
    for message in messages:
        reason = "bad" if int(str(message)) % 3 == 0 else "worse"
        receiver.dead_letter_message(message, reason=reason)
    where = SqlRuleFilter("DeadLetterReason = 'bad'")
    assert admin.purge_messages(queue_name, sub_queue="deadletter", where=where) == 3
    left = peek_all(client, queue_name, sub_queue="deadletter")
    assert {message.dead_letter_reason for message in left} == {"worse"}
    assert texts(left) == ["1", "2", "4", "5", "7", "8"]


def test_subscription(
    topic: str,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
) -> None:
    """Purging removes the copies of one subscription only (B-343, B-402)."""
    subscribe("one")
    subscribe("two")
    publish("x", "y", "z")
    assert admin.purge_messages(f"{topic}/Subscriptions/one") == 3
    assert take_copies("one") == []
    assert len(take_copies("two")) == 3


def test_sessions(
    make_queue: Callable[..., str], client: ServiceBusClient, admin: ServiceBusAdministrationClient
) -> None:
    """A filter can select a session's messages; an emptied session is no longer available (B-195, B-401)."""
    name = make_queue("talks", requires_session=True)
    with client.get_queue_sender(name) as sender:
        for session_id in ("a", "b", "c"):
            fill(sender, 4, session_id=session_id)
    with client.get_queue_receiver(name, session_id="c") as holder:
        (held, *_) = holder.receive_messages(max_message_count=1, max_wait_time=0)
        assert admin.purge_messages(name, where=SqlRuleFilter("sys.SessionId = 'a'")) == 4
        assert admin.purge_messages(name, where=SqlRuleFilter("n > 1 AND sys.SessionId = 'b'")) == 2
        assert admin.purge_messages(name, where=SqlRuleFilter("sys.SessionId = 'c'")) == 3
        assert holder.receive_messages(max_wait_time=0) == []
        holder.complete_message(held)
    assert list(client.list_queue_sessions(name)) == ["b"]
    with client.get_queue_receiver(name, session_id="b") as receiver:
        messages = receiver.receive_messages(max_message_count=10, max_wait_time=0)
        assert texts(messages) == ["0", "1"]


def test_faithful_receive_and_delete_is_purged_or_delivered(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, client: ServiceBusClient
) -> None:
    """Delivered messages are removed and undelivered ones purged; together they are all messages (B-402)."""
    fill(sender, 30)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue_name, receive_mode=mode) as receiver:
        taken = receiver.receive_messages(max_message_count=10, max_wait_time=0)
        assert admin.purge_messages(queue_name) == 30 - len(taken)
        assert receiver.receive_messages(max_message_count=30, max_wait_time=0) == []


def test_expired_messages_are_not_counted(
    make_queue: Callable[..., str], client: ServiceBusClient, admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """Expired messages are dropped or dead-lettered as usual, and not counted as purged (B-253, B-402)."""
    name = make_queue("short", dead_lettering_on_message_expiration=True)
    with client.get_queue_sender(name) as sender:
        fill(sender, 3, time_to_live=timedelta(seconds=5))
        fill(sender, 3)
    clock.advance(5)
    assert admin.purge_messages(name) == 3
    counts = admin.get_queue_runtime_properties(name)
    assert (counts.active_message_count, counts.dead_letter_message_count) == (0, 3)


def test_partition_that_is_down(
    client: ServiceBusClient,
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
) -> None:
    """Messages of healthy partitions are removed; those of the failed one stay (B-093, B-402)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition_id in range(16):
            fill(sender, 2, partition_key=key_in(partition_id))
    inject_fault(namespace, 5, "unavailable")
    assert admin.purge_messages(partitioned_queue) == 30
    heal(namespace, 5)
    assert admin.get_queue_runtime_properties(partitioned_queue).total_message_count == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"limit": -1}, ValueError),
        ({"limit": "10"}, TypeError),
        ({"limit": 1.5}, TypeError),
        ({"where": "n = 1"}, TypeError),
        ({"where": SqlRuleFilter("n = ")}, InvalidRuleError),
        ({"where": SqlRuleFilter("(" * 10_000)}, InvalidRuleError),
        ({"where": SqlRuleFilter("n = '" + "x" * 1_025 + "'")}, InvalidRuleError),
        ({"sub_queue": "dead"}, ValueError),
        ({"before_enqueued_time_utc": "yesterday"}, TypeError),
    ],
    ids=repr,
)
def test_bad_arguments(
    sender: ServiceBusSender,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    snapshot: Callable[[str], object],
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    """A bad argument is refused and nothing is removed (B-359, B-403)."""
    fill(sender, 3)
    before = snapshot(queue_name)
    with pytest.raises(error):
        admin.purge_messages(queue_name, **options)
    assert snapshot(queue_name) == before


def test_time_without_zone_is_utc(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, clock: ManualClock
) -> None:
    """A cutoff without a zone is taken as UTC, as the SDK does with the times of schedules (B-402)."""
    fill(sender, 3)
    cutoff: datetime = (clock.now() + timedelta(seconds=1)).replace(tzinfo=None)
    assert admin.purge_messages(queue_name, before_enqueued_time_utc=cutoff) == 3


def test_refused_entities(
    topic: str, make_queue: Callable[..., str], admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """Unknown ones, topics, disabled ones and those that forward are refused, as a receive is (B-136, B-137, B-397)."""
    make_queue("target")
    make_queue("source", forward_to="target")
    name = make_queue("closed")
    with client.get_queue_sender(name) as sender:
        fill(sender, 3)
    queue = admin.get_queue(name)
    queue.status = EntityStatus.RECEIVE_DISABLED
    admin.update_queue(queue)
    for entity, error in (
        ("nowhere", MessagingEntityNotFoundError),
        (f"{topic}/Subscriptions/none", MessagingEntityNotFoundError),
        (topic, InvalidOperationError),
        ("source", InvalidOperationError),
        (name, MessagingEntityDisabledError),
    ):
        with pytest.raises(error):
            admin.purge_messages(entity)
    assert admin.get_queue_runtime_properties(name).total_message_count == 3


def test_a_purged_message_is_gone_for_its_former_holder(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A lock that ended before the purge does not bring the message back (B-155, B-402)."""
    fill(sender, 1)
    message = receive_one(receiver)
    clock.advance(61)
    assert admin.purge_messages(queue_name) == 1
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(message.sequence_number)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_expired_messages_do_not_use_up_the_limit(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, clock: ManualClock
) -> None:
    """Besides expired messages, the call removes as many as the limit allows (B-251, B-402)."""
    fill(sender, 3, partition_key="k", time_to_live=timedelta(seconds=1))
    clock.advance(1)
    fill(sender, 3, partition_key="k")
    assert admin.purge_messages(queue_name, limit=2) == 2
    assert admin.get_queue_runtime_properties(queue_name).active_message_count == 1
