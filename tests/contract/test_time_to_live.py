# SPDX-License-Identifier: Apache-2.0
"""Time to live and expiry in queues (B-138, B-246 to B-258, R-17).

B-251 does not define when an expired message leaves the counts, so these tests receive before they count.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage, ServiceBusSubQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

TEN_SECONDS = timedelta(seconds=10)


def test_message_lives_for_its_time(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A message can be received until it expires (B-138, B-246)."""
    for text in ("early", "late"):
        sender.send_messages(ServiceBusMessage(text, partition_key="k", time_to_live=TEN_SECONDS))
    clock.advance(9.9)
    assert str(receive_one(receiver)) == "early"
    clock.advance(0.2)
    assert receiver.receive_messages(max_wait_time=0) == []


def test_expiry_time_is_fixed_at_enqueue(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """`expires_at_utc` is enqueued time plus time to live and does not change (B-246)."""
    sent_at = clock.now()
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=timedelta(hours=1)))
    for _ in range(3):
        clock.advance(100)
        message = receive_one(receiver)
        assert message.time_to_live == timedelta(hours=1)
        assert message.expires_at_utc == sent_at + timedelta(hours=1)
        receiver.abandon_message(message)


def test_message_without_a_time_lives_on(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Without a time to live a message does not expire (B-022, B-247)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    clock.advance(50 * 365 * 24 * 3600)
    assert str(receive_one(receiver)) == "x"


@pytest.mark.parametrize(
    ("own", "lives"), [(None, 60), (30, 30), (60, 60), (3600, 60)], ids=["none", "shorter", "equal", "longer"]
)
def test_queue_default_applies_and_caps(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    own: int | None,
    lives: int,
) -> None:
    """The queue's default applies to messages without a time to live and shortens longer ones (B-247)."""
    queue_name = make_queue(default_message_time_to_live=timedelta(seconds=60))
    sent_at = clock.now()
    time_to_live = None if own is None else timedelta(seconds=own)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        for _ in range(2):
            sender.send_messages(ServiceBusMessage(b"x", partition_key="k", time_to_live=time_to_live))
        clock.advance(lives - 1)
        message = receive_one(receiver)
        assert message.expires_at_utc == sent_at + timedelta(seconds=lives)
        receiver.complete_message(message)
        clock.advance(2)
        assert receiver.receive_messages(max_wait_time=0) == []


def test_expired_messages_are_dropped_by_default(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    peek_all: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Without dead-lettering on expiry, an expired message is dropped (B-253)."""
    sender.send_messages([ServiceBusMessage(b"x", time_to_live=TEN_SECONDS) for _ in range(5)])
    clock.advance(11)
    assert receiver.receive_messages(max_wait_time=0) == []
    assert peek_all(client, queue_name) == []
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.total_message_count, counts.dead_letter_message_count) == (0, 0)


def test_expired_messages_are_dead_lettered_on_request(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """With the option, an expired message is dead-lettered with exact reason and description (B-253, B-267)."""
    queue_name = make_queue(dead_lettering_on_message_expiration=True)
    with (
        client.get_queue_sender(queue_name) as sender,
        client.get_queue_receiver(queue_name) as receiver,
        client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters,
    ):
        sender.send_messages([ServiceBusMessage(str(number), time_to_live=TEN_SECONDS) for number in range(3)])
        clock.advance(11)
        assert receiver.receive_messages(max_wait_time=0) == []
        dead = drain(dead_letters)
        assert [str(message) for message in dead] == ["0", "1", "2"]
        assert {(message.dead_letter_reason, message.dead_letter_error_description) for message in dead} == {
            ("TTLExpiredException", "The message expired and was dead lettered.")
        }
        assert {message.delivery_count for message in dead} == {0}
        clock.advance(3600)
        dead_letters.complete_messages(drain(dead_letters))


@pytest.mark.parametrize("flag", [True, False], ids=["dead-letter", "drop"])
@pytest.mark.parametrize("ending", ["abandon", "expire"])
def test_locked_message_does_not_expire_until_it_comes_back(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    ending: str,
    flag: bool,
) -> None:
    """A locked message expires only after its lock ends without completion, and then at once (B-252)."""
    queue_name = make_queue(dead_lettering_on_message_expiration=flag)
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
        message = receive_one(receiver)
        clock.advance(30)
        receiver.renew_message_lock(message)
        clock.advance(30)
        if ending == "abandon":
            receiver.abandon_message(message)
        else:
            clock.advance(31)
        assert receiver.receive_messages(max_wait_time=0) == []
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == int(flag)
    if flag:
        with client.get_queue_receiver(queue_name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
            assert receive_one(dead_letters).dead_letter_reason == "TTLExpiredException"


def test_times_may_differ_within_a_partition(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Each message expires at its own time, in whatever order they were sent (B-246, B-258)."""
    lives = [500, 20, 300, 40, 1, None, 1000, 20]
    sender.send_messages(
        [
            ServiceBusMessage(str(number), time_to_live=None if life is None else timedelta(seconds=life))
            for number, life in enumerate(lives)
        ]
    )
    for advance, left in ((2, "0123567"), (20, "02356"), (20, "0256"), (300, "056"), (300, "56")):
        clock.advance(advance)
        messages = drain(receiver)
        assert "".join(sorted(str(message) for message in messages)) == left
        receiver.abandon_messages(messages)


def test_peek_shows_the_expiry_time(sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """Peek shows the right expiry time of a message with its own time to live (B-256)."""
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=TEN_SECONDS))
    (peeked,) = receiver.peek_messages()
    assert peeked.expires_at_utc == clock.now() + TEN_SECONDS


def test_long_time_to_live(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A time to live over 49.7 days (32 bits of milliseconds) is kept exactly (B-249)."""
    life = timedelta(days=100)
    sent_at = clock.now()
    sender.send_messages(ServiceBusMessage(b"x", time_to_live=life))
    clock.advance(timedelta(days=99).total_seconds())
    (message,) = drain(receiver)
    assert (message.time_to_live, message.expires_at_utc) == (life, sent_at + life)
    clock.advance(timedelta(days=2).total_seconds())
    assert drain(receiver) == []


def test_negative_time_is_refused() -> None:
    """A time to live below zero is a ValueError when it is set (B-246)."""
    with pytest.raises(ValueError, match="time_to_live"):
        ServiceBusMessage(b"x", time_to_live=timedelta(seconds=-1))
