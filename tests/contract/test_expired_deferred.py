# SPDX-License-Identifier: Apache-2.0
"""Expired deferred messages stay until a fetch for them fails, which removes them.

They used to stay for ever: a fetch by number raised "not found", and counts and peeks still showed the message
(B-255, R-17, R-20).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from oxbus.exceptions import MessageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

TEN_SECONDS = timedelta(seconds=10)
DEAD = ServiceBusSubQueue.DEAD_LETTER

both_policies = pytest.mark.parametrize("dead_letter_on_expiry", [True, False], ids=["dead-letter", "drop"])


def assert_reason(message: ServiceBusReceivedMessage) -> None:
    """The dead letter has the reason and description of the service."""
    assert message.dead_letter_reason == "TTLExpiredException"
    assert message.dead_letter_error_description == "The message expired and was dead lettered."


@both_policies
@pytest.mark.parametrize("mode", ServiceBusReceiveMode, ids=lambda mode: mode.value)
def test_a_fetch_removes_an_expired_message(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
    mode: ServiceBusReceiveMode,
    dead_letter_on_expiry: bool,
) -> None:
    """Nothing removes it before; a fetch drops or dead-letters it, by the queue's option (B-253, B-255, B-278)."""
    name = make_queue(dead_lettering_on_message_expiration=dead_letter_on_expiry)
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        message = receive_one(receiver)
        receiver.defer_message(message)
        clock.advance(11)
        assert receiver.receive_messages(max_wait_time=0) == []
        assert [it.sequence_number for it in peek_all(client, name)] == [message.sequence_number]
        assert admin.get_queue_runtime_properties(name).deferred_message_count == 1
    with client.get_queue_receiver(name, receive_mode=mode) as fetcher:
        for _ in range(2):
            with pytest.raises(MessageNotFoundError):
                fetcher.receive_deferred_messages(message.sequence_number)
    assert peek_all(client, name) == []
    counts = admin.get_queue_runtime_properties(name)
    assert (counts.active_message_count, counts.deferred_message_count) == (0, 0)
    assert (counts.total_message_count, counts.dead_letter_message_count) == (
        int(dead_letter_on_expiry),
        int(dead_letter_on_expiry),
    )
    if dead_letter_on_expiry:
        with client.get_queue_receiver(name, sub_queue=DEAD) as dead_letters:
            dead = receive_one(dead_letters)
            assert dead.sequence_number == message.sequence_number
            assert_reason(dead)
    else:
        assert counts.size_in_bytes == 0


def test_a_fetch_of_several_removes_only_the_expired_ones(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A fetch that includes expired messages fails and removes those; the others can be fetched (B-255, B-278)."""
    name = make_queue()
    lives = [None, 10, 1000, 10, 10]
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        for number, life in enumerate(lives):
            time_to_live = None if life is None else timedelta(seconds=life)
            sender.send_messages(ServiceBusMessage(str(number), partition_key="k", time_to_live=time_to_live))
        messages = drain(receiver)
        receiver.defer_messages(messages)
        numbers = [message.sequence_number for message in messages]
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(numbers[:4])
        assert [str(message) for message in peek_all(client, name)] == ["0", "2", "4"]
        assert [str(message) for message in receiver.receive_deferred_messages([numbers[0], numbers[2]])] == ["0", "2"]


def test_a_locked_deferred_message_does_not_expire(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A message fetched in time stays locked, and its receiver can complete it (B-173, B-252)."""
    name = make_queue(dead_lettering_on_message_expiration=True)
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        message = receive_one(receiver)
        receiver.defer_message(message)
        (fetched,) = receiver.receive_deferred_messages(message.sequence_number)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(message.sequence_number)
        receiver.complete_message(fetched)
        with client.get_queue_receiver(name, sub_queue=DEAD) as dead_letters:
            assert dead_letters.receive_messages(max_wait_time=0) == []


def test_dead_letters_do_not_expire(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A deferred dead letter can be fetched at any later time (B-254, B-287)."""
    name = make_queue()
    with (
        client.get_queue_sender(name) as sender,
        client.get_queue_receiver(name) as receiver,
        client.get_queue_receiver(name, sub_queue=DEAD) as dead_letters,
    ):
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        receiver.dead_letter_message(receive_one(receiver))
        dead = receive_one(dead_letters)
        dead_letters.defer_message(dead)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            dead_letters.receive_deferred_messages(dead.sequence_number + 1)
        assert len(dead_letters.receive_deferred_messages(dead.sequence_number)) == 1


@both_policies
def test_in_a_session(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    dead_letter_on_expiry: bool,
) -> None:
    """A fetch by the session's holder removes it; one by the holder of another session does not (B-255, B-278)."""
    name = make_queue("sessions", requires_session=True, dead_lettering_on_message_expiration=dead_letter_on_expiry)
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x", session_id="a", time_to_live=TEN_SECONDS))
    with (
        client.get_queue_receiver(name, session_id="a") as holder,
        client.get_queue_receiver(name, session_id="b") as other,
    ):
        message = receive_one(holder)
        holder.defer_message(message)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            other.receive_deferred_messages(message.sequence_number)
        assert admin.get_queue_runtime_properties(name).deferred_message_count == 1
        for numbers in ([message.sequence_number, message.sequence_number + 1], [message.sequence_number]):
            with pytest.raises(MessageNotFoundError):
                holder.receive_deferred_messages(numbers)
            counts = admin.get_queue_runtime_properties(name)
            assert (counts.deferred_message_count, counts.dead_letter_message_count) == (0, int(dead_letter_on_expiry))
    if dead_letter_on_expiry:
        with client.get_queue_receiver(name, sub_queue=DEAD) as dead_letters:
            assert_reason(receive_one(dead_letters))


@both_policies
def test_in_a_subscription(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    partitioned: bool,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    dead_letter_on_expiry: bool,
) -> None:
    """A subscription follows its own option (B-253, B-255)."""
    admin.create_topic("topic", enable_partitioning=partitioned)
    admin.create_subscription("topic", "s", dead_lettering_on_message_expiration=dead_letter_on_expiry)
    with client.get_topic_sender("topic") as sender:
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
    with client.get_subscription_receiver("topic", "s") as receiver:
        message = receive_one(receiver)
        receiver.defer_message(message)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(message.sequence_number)
    counts = admin.get_subscription_runtime_properties("topic", "s")
    assert (counts.active_message_count, counts.dead_letter_message_count) == (0, int(dead_letter_on_expiry))


def test_a_waiting_dead_letter_receiver_is_woken(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    in_background: Callable[..., Any],
) -> None:
    """A receiver that waits for dead letters gets it (B-133)."""
    name = make_queue(dead_lettering_on_message_expiration=True)
    with (
        client.get_queue_sender(name) as sender,
        client.get_queue_receiver(name) as receiver,
        client.get_queue_receiver(name, sub_queue=DEAD) as dead_letters,
    ):
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        message = receive_one(receiver)
        receiver.defer_message(message)
        clock.advance(11)
        waiting = in_background(dead_letters.receive_messages, max_wait_time=60)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(message.sequence_number)
        (dead,) = waiting.result()
        assert_reason(dead)


def test_a_dead_letter_is_forwarded(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The dead letter is forwarded like others (B-269)."""
    target = make_queue("target")
    name = make_queue("source", dead_lettering_on_message_expiration=True, forward_dead_lettered_messages_to=target)
    with (
        client.get_queue_sender(name) as sender,
        client.get_queue_receiver(name) as receiver,
        client.get_queue_receiver(target) as of_target,
    ):
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        message = receive_one(receiver)
        receiver.defer_message(message)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(message.sequence_number)
        assert_reason(receive_one(of_target))


def test_a_fetch_removes_expired_messages_from_the_overflow_map(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    plain_queue: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages whose segment was freed are removed as well (B-255)."""
    receiver: ServiceBusReceiver
    with client.get_queue_sender(plain_queue) as sender, client.get_queue_receiver(plain_queue) as receiver:
        sender.send_messages([ServiceBusMessage(str(n), time_to_live=TEN_SECONDS) for n in range(1000)])
        messages = drain(receiver)
        few, most = messages[::100], [message for n, message in enumerate(messages) if n % 100]
        receiver.defer_messages(few)
        receiver.complete_messages(most)
        clock.advance(11)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([message.sequence_number for message in few[:5]])
    assert admin.get_queue_runtime_properties(plain_queue).total_message_count == 5
