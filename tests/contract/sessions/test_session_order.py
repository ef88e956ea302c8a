# SPDX-License-Identifier: Apache-2.0
"""Messages of a session are delivered in order, however they are settled (R-07)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError
from session_receiving import take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.testing import ManualClock


def test_messages_come_in_their_order(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Messages of a session arrive in send order, also when several are in flight (B-123, B-207, R-07)."""
    for number in range(50):
        send("a", f"a{number}")
        send("b", f"b{number}")
    receiver = accept("a")
    messages = []
    while batch := take(receiver, 7):
        messages += batch
    assert texts(messages) == [f"a{number}" for number in range(50)]
    # Settled in any order.
    for message in reversed(messages):
        receiver.complete_message(message)
    assert take(receiver) == []


def test_abandoned_message_is_the_next_one(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """An abandoned message is delivered next, with one more delivery, before later ones (B-207)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    first, second = take(receiver, 2)
    receiver.abandon_message(first, properties_to_modify={"tried": 1})
    (again,) = take(receiver, 1)
    assert (str(again), again.delivery_count, again.application_properties) == ("1", 1, {"tried": 1})
    receiver.abandon_message(second)
    receiver.abandon_message(again)
    messages = take(receiver)
    assert [(str(message), message.delivery_count) for message in messages] == [("1", 2), ("2", 1), ("3", 0)]
    receiver.complete_messages(messages)


def test_too_many_deliveries_go_to_the_dead_letters(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None]
) -> None:
    """A message abandoned too often leaves its session; the next one is delivered (B-178, B-190, B-208)."""
    make_queue("strict", requires_session=True, max_delivery_count=2)
    send("a", "bad", "good", queue_name="strict")
    with client.get_queue_receiver("strict", session_id="a", max_wait_time=0) as receiver:
        for _ in range(2):
            receiver.abandon_message(take(receiver, 1)[0])
        assert texts(take(receiver)) == ["good"]
    with client.get_queue_receiver("strict", sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.session_id, dead.delivery_count) == ("bad", "a", 2)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        dead_letters.complete_message(dead)


def test_dead_lettered_and_deferred_messages_do_not_block_the_session(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """Delivery continues after them; a resubmitted dead letter comes after later messages (B-190, B-208, B-272)."""
    send("a", "1", "2", "3", "4")
    receiver = accept("a")
    first, second = take(receiver, 2)
    receiver.dead_letter_message(first, "reason", "description")
    receiver.defer_message(second)
    (third,) = take(receiver, 1)
    assert str(third) == "3"
    receiver.complete_message(third)
    with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.session_id, dead.dead_letter_reason) == ("1", "a", "reason")
        send("a", str(dead))
        dead_letters.complete_message(dead)
    assert texts(take(receiver)) == ["4", "1"]
    (fetched,) = receiver.receive_deferred_messages(second.sequence_number)
    assert (str(fetched), fetched.delivery_count) == ("2", 1)
    receiver.complete_message(fetched)


def test_dead_letters_are_never_sessionful(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """One receiver without a session reads the dead letters of all sessions (B-190)."""
    for session_id in "abc":
        send(session_id, session_id)
        receiver = accept(session_id)
        receiver.dead_letter_message(take(receiver)[0])
    with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert sorted(texts([message for message in dead_letters])) == ["a", "b", "c"]  # noqa: C416


def test_scheduled_message_arrives_in_a_held_session(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """A message that becomes due goes to the holder, after the messages already there (B-112, B-200)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("later", session_id="a"), clock.now() + timedelta(seconds=30))
    send("a", "now")
    receiver = accept("a")
    assert texts(take(receiver)) == ["now"]
    clock.advance(30)
    with pytest.raises(OperationTimeoutError):
        accept()
    assert texts(take(receiver)) == ["later"]


def test_cancelled_schedule_never_arrives(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], clock: ManualClock
) -> None:
    """A scheduled message of a session can be cancelled (B-238)."""
    with client.get_queue_sender(queue_name) as sender:
        numbers = sender.schedule_messages(ServiceBusMessage("x", session_id="a"), clock.now() + timedelta(seconds=30))
        sender.cancel_scheduled_messages(numbers)
    clock.advance(60)
    with pytest.raises(OperationTimeoutError):
        accept()
