# SPDX-License-Identifier: Apache-2.0
"""Resubmitting dead letters to their entity in one call (B-111, B-263, B-270, B-272)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from oxbus.exceptions import (
    InvalidOperationError,
    InvalidRuleError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import EntityStatus, SqlRuleFilter
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

LOW_48_BITS = (1 << 48) - 1


@pytest.fixture
def dead_letter(
    client: ServiceBusClient, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Send messages "0", "1", … to a queue and dead-letter all its messages."""

    def dead_letter(
        queue_name: str, count: int, reason: str | None = "bad", **options: Any
    ) -> list[ServiceBusReceivedMessage]:
        with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
            for number in range(count):
                properties = {"n": number}
                sender.send_messages(ServiceBusMessage(str(number), application_properties=properties, **options))
            messages = drain(receiver)
            receiver.dead_letter_messages(messages, reason=reason, error_description="long story")
        return messages

    return dead_letter


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, sorted as numbers."""
    return sorted((str(message) for message in messages), key=int)


def dead_letters(admin: ServiceBusAdministrationClient, queue_name: str) -> int:
    """How many dead letters a queue has."""
    return admin.get_queue_runtime_properties(queue_name).dead_letter_message_count


def test_resubmitted_messages_are_new(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """They have new numbers, times and counts and no reason, and are otherwise as sent (B-263, B-270)."""
    dead_lettered = dead_letter(
        queue_name, 30, subject="s", correlation_id="c", time_to_live=timedelta(hours=1), message_id="m"
    )
    last = max(message.sequence_number & LOW_48_BITS for message in dead_lettered)
    clock.advance(100)
    assert admin.resubmit_dead_letters(queue_name) == 30
    assert dead_letters(admin, queue_name) == 0
    messages = drain(receiver)
    assert texts(messages) == [str(number) for number in range(30)]
    for message in messages:
        assert message.application_properties == {"n": int(str(message))}
        assert (message.subject, message.correlation_id, message.message_id) == ("s", "c", "m")
        assert message.dead_letter_reason is None
        assert message.dead_letter_error_description is None
        assert message.delivery_count == 0
        assert message.enqueued_time_utc == clock.now()
        assert message.expires_at_utc == clock.now() + timedelta(hours=1)
    new = {message.sequence_number for message in messages}
    assert not new & {message.sequence_number for message in dead_lettered}
    assert max(number & LOW_48_BITS for number in new) > last
    receiver.complete_messages(messages)
    assert admin.resubmit_dead_letters(queue_name) == 0


def test_resubmitted_messages_keep_their_order(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Within a partition they are received in their original order (B-265, B-270)."""
    dead_letter(queue_name, 20, partition_key="k")
    admin.resubmit_dead_letters(queue_name)
    assert [str(message) for message in drain(receiver)] == [str(number) for number in range(20)]


def test_filter_and_limit(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    receiver: ServiceBusReceiver,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Only selected messages are resubmitted, up to the limit; the rest stays with its reason (B-270)."""
    dead_letter(queue_name, 20, reason="bad", partition_key="k")
    where = SqlRuleFilter("n % 2 = 0 AND DeadLetterReason = 'bad'")
    assert admin.resubmit_dead_letters(queue_name, where=SqlRuleFilter("DeadLetterReason = 'other'")) == 0
    assert admin.resubmit_dead_letters(queue_name, where=where, limit=3) == 3
    assert [str(message) for message in drain(receiver)] == ["0", "2", "4"]
    assert admin.resubmit_dead_letters(queue_name, where=where, limit=0) == 0
    assert admin.resubmit_dead_letters(queue_name, where=where, limit=100) == 7
    assert dead_letters(admin, queue_name) == 10


def test_held_dead_letters_stay(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    client: ServiceBusClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Locked and deferred dead letters are not resubmitted (B-261, B-270)."""
    dead_letter(queue_name, 10)
    with client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead:
        messages = drain(dead)
        dead.defer_messages(messages[:3])
        dead.abandon_messages(messages[3:6])
        assert admin.resubmit_dead_letters(queue_name) == 3
        dead.complete_messages(messages[6:])
    assert dead_letters(admin, queue_name) == 3


def test_a_message_can_be_resubmitted_again(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]], admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """A message may be dead-lettered and resubmitted repeatedly; the latest reason counts (B-263, B-270)."""
    dead_letter(queue_name, 3, reason="first")
    assert admin.resubmit_dead_letters(queue_name) == 3
    again = dead_letter(queue_name, 0, reason="second")
    assert len(again) == 3
    where = SqlRuleFilter("DeadLetterReason = 'second'")
    assert admin.resubmit_dead_letters(queue_name, where=where) == 3


def test_subscription(
    topic: str,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., list[ServiceBusReceivedMessage]],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Dead letters of a subscription return to it only, without its rules (B-270, B-343)."""
    subscribe("one")
    subscribe("two")
    publish("x", "y")
    with client.get_subscription_receiver(topic, "one") as receiver:
        messages = drain(receiver)
        first = {str(message): message.enqueued_sequence_number for message in messages}
        receiver.dead_letter_messages(messages, reason="bad")
    admin.delete_rule(topic, "one", "$Default")
    assert admin.resubmit_dead_letters(f"{topic}/Subscriptions/one") == 2
    copies = take_copies("one")
    assert {str(copy): copy.enqueued_sequence_number for copy in copies} == first
    assert len(take_copies("two")) == 2


def test_sessions(
    make_queue: Callable[..., str], client: ServiceBusClient, admin: ServiceBusAdministrationClient
) -> None:
    """They return to their sessions after the messages there, so the old order is lost (B-189, B-272)."""
    name = make_queue("talks", requires_session=True)
    with client.get_queue_sender(name) as sender:
        for text in "012":
            sender.send_messages(ServiceBusMessage(text, session_id="a"))
    with client.get_queue_receiver(name, session_id="a") as receiver:
        first, *others = receiver.receive_messages(max_message_count=3, max_wait_time=0)
        receiver.dead_letter_message(first)
        for message in others:
            receiver.abandon_message(message)
        assert admin.resubmit_dead_letters(name) == 1
        messages = receiver.receive_messages(max_message_count=3, max_wait_time=0)
        assert [str(message) for message in messages] == ["1", "2", "0"]


def test_without_a_session_they_stay(
    topic: str, subscribe: Callable[..., str], publish: Callable[..., None], admin: ServiceBusAdministrationClient
) -> None:
    """If sessions are required, a message without one stays: it would be dead-lettered again at once (B-185, B-270)."""
    subscribe("talks", requires_session=True)
    publish("x")
    publish("y", session_id="a")
    path = f"{topic}/Subscriptions/talks"
    counts = admin.get_subscription_runtime_properties(topic, "talks")
    assert (counts.active_message_count, counts.dead_letter_message_count) == (1, 1)
    assert admin.resubmit_dead_letters(path) == 0
    assert admin.get_subscription_runtime_properties(topic, "talks").dead_letter_message_count == 1


def test_duplicate_detection_drops_none(
    make_queue: Callable[..., str],
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
) -> None:
    """They are not dropped as duplicates, within the window or after it; a later duplicate is (B-219, B-270)."""
    name = make_queue("once", requires_duplicate_detection=True)
    options = {"message_id": "id", "partition_key": "k"}
    dead_letter(name, 1, **options)
    assert admin.resubmit_dead_letters(name) == 1
    dead_letter(name, 0)
    clock.advance(3600)
    assert admin.resubmit_dead_letters(name) == 1
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"copy", **options))  # type: ignore[arg-type]
    assert admin.get_queue_runtime_properties(name).active_message_count == 1


def test_a_full_queue_accepts_its_own_dead_letters(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Dead letters already count toward the size, so a full queue accepts them (B-037)."""
    name = make_queue("small", max_size_in_megabytes=1)
    with client.get_queue_sender(name) as sender:
        body = b"x" * 60_000

        def fill() -> int:
            sent = 0
            while sent < 100:
                sender.send_messages(ServiceBusMessage(body, partition_key="k"))
                sent += 1
            return sent

        with pytest.raises(ServiceBusQuotaExceededError):
            fill()
        count = len(dead_letter(name, 0))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(body, partition_key="k"))
        assert admin.resubmit_dead_letters(name) == count
    counts = admin.get_queue_runtime_properties(name)
    assert (counts.active_message_count, counts.dead_letter_message_count) == (count, 0)


def test_rate_follows_the_clock(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    client: ServiceBusClient,
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """With a rate, one is resubmitted at once and the others as the namespace's clock moves (B-270)."""
    dead_letter(queue_name, 7)
    call = in_background(admin.resubmit_dead_letters, queue_name, rate=2)
    with client.get_queue_receiver(queue_name) as receiver:

        def receive(count: int) -> None:
            for _ in range(count):
                (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=60)
                receiver.complete_message(message)
            assert receiver.receive_messages(max_message_count=1, max_wait_time=0) == []

        receive(1)
        for _ in range(2):
            clock.advance(1)
            receive(2)
        assert dead_letters(admin, queue_name) == 2
        assert call.running
        clock.advance(100)
        receive(2)
    assert call.result() == 7


def test_rate_ends_with_what_the_filter_selects(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """A call with a rate ends when no selected message is left or its limit is reached (B-270)."""
    dead_letter(queue_name, 10)
    assert admin.resubmit_dead_letters(queue_name, where=SqlRuleFilter("n > 100"), rate=1) == 0
    assert admin.resubmit_dead_letters(queue_name, limit=1, rate=0.001) == 1
    assert admin.resubmit_dead_letters(queue_name, limit=0, rate=0.001) == 0
    call = in_background(admin.resubmit_dead_letters, queue_name, where=SqlRuleFilter("n < 8"), rate=1)
    while call.running:
        clock.advance(1)
    assert call.result() in (7, 8)


def test_partition_that_is_down(
    namespace: Namespace,
    admin: ServiceBusAdministrationClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages of healthy partitions are resubmitted; the others stay until their partition heals (B-093, B-270)."""
    for partition_id in range(16):
        dead_letter(partitioned_queue, 2, partition_key=key_in(partition_id))
    inject_fault(namespace, 5, "unavailable")
    assert admin.resubmit_dead_letters(partitioned_queue) == 30
    heal(namespace, 5)
    assert admin.resubmit_dead_letters(partitioned_queue) == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"limit": -1}, ValueError),
        ({"limit": "10"}, TypeError),
        ({"rate": 0}, ValueError),
        ({"rate": -1.0}, ValueError),
        ({"rate": float("nan")}, ValueError),
        ({"rate": float("inf")}, ValueError),
        ({"rate": "1"}, TypeError),
        ({"where": "n = 1"}, TypeError),
        ({"where": SqlRuleFilter("n = ")}, InvalidRuleError),
        ({"where": SqlRuleFilter("n = "), "rate": 1}, InvalidRuleError),
    ],
    ids=repr,
)
def test_bad_arguments(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    snapshot: Callable[[str], object],
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    """A bad argument is refused and nothing is resubmitted (B-270, B-359)."""
    dead_letter(queue_name, 3)
    before = snapshot(queue_name)
    with pytest.raises(error):
        admin.resubmit_dead_letters(queue_name, **options)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED])
def test_disabled_queue(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]],
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    snapshot: Callable[[str], object],
    status: EntityStatus,
) -> None:
    """Resubmitting needs a status that allows sending and receiving (B-397)."""
    dead_letter(queue_name, 3)
    queue = admin.get_queue(queue_name)
    queue.status = status
    admin.update_queue(queue)
    before = snapshot(queue_name)
    with pytest.raises(MessagingEntityDisabledError):
        admin.resubmit_dead_letters(queue_name)
    assert snapshot(queue_name) == before


def test_refused_entities(topic: str, make_queue: Callable[..., str], admin: ServiceBusAdministrationClient) -> None:
    """Unknown ones, topics, and those that forward their dead letters are refused (B-136, B-137, B-271)."""
    make_queue("target")
    make_queue("source", forward_dead_lettered_messages_to="target")
    for entity, error in (
        ("nowhere", MessagingEntityNotFoundError),
        (topic, InvalidOperationError),
        ("source", InvalidOperationError),
    ):
        with pytest.raises(error):
            admin.resubmit_dead_letters(entity)


def test_for_asyncio(
    dead_letter: Callable[..., list[ServiceBusReceivedMessage]], namespace: Namespace, queue_name: str
) -> None:
    """The client for asyncio has both calls, with the same arguments and results (B-270, B-405)."""
    dead_letter(queue_name, 5)

    async def main() -> tuple[int, int, int]:
        async with AsyncAdministrationClient(namespace) as admin:
            sent = await admin.resubmit_dead_letters(queue_name, where=SqlRuleFilter("n < 3"))
            removed = await admin.purge_messages(queue_name, where=SqlRuleFilter("n = 0"))
            dead = await admin.purge_messages(queue_name, sub_queue="deadletter")
        return sent, removed, dead

    assert asyncio.run(main()) == (3, 1, 2)
