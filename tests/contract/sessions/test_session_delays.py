# SPDX-License-Identifier: Apache-2.0
"""Abandoning with a delay in a session: it keeps its order, so later messages wait (B-468)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessageState
from oxbus.exceptions import OperationTimeoutError
from session_receiving import session_of, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.testing import ManualClock


def test_later_messages_of_the_session_wait(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Also those that are sent during the delay; then all come in order (B-207)."""
    send("s", "0", "1", "2")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    receiver.abandon_message(first, delay=20)
    send("s", "3")
    assert drain(receiver) == []
    clock.advance(10)
    session_of(receiver).renew_lock()
    assert drain(receiver) == []
    states = [message.state for message in receiver.peek_messages(max_message_count=10)]
    assert states == [ServiceBusMessageState.SCHEDULED] + 3 * [ServiceBusMessageState.ACTIVE]
    clock.advance(10)
    assert texts(drain(receiver)) == ["0", "1", "2", "3"]


def test_earlier_messages_do_not_wait(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Only messages with higher numbers do."""
    send("s", "0", "1", "2", "3")
    receiver = accept("s")
    messages = receiver.receive_messages(max_message_count=3, max_wait_time=0)
    receiver.abandon_message(messages[1], delay=5)
    receiver.abandon_message(messages[0])
    receiver.abandon_message(messages[2])
    early = drain(receiver)
    assert texts(early) == ["0"]
    clock.advance(5)
    assert texts(drain(receiver)) == ["1", "2", "3"]


def test_session_that_waits_is_not_accepted_as_the_next(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    accept_all: Callable[[], set[str | None]],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """It has no message to receive (B-198). By its id it can be accepted, and other sessions go on."""
    send("s", "0", "1")
    send("other", "x")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    receiver.abandon_message(first, delay=30)
    receiver.close()
    assert accept_all() == {"other"}
    again = accept("s")
    assert drain(again) == []
    again.close()
    clock.advance(30)
    assert accept_all() == {"other", "s"}
    assert texts(drain(accept("s"))) == ["0", "1"]


def test_waiting_receivers_notice_the_end(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """One that waits for a message of the session, and one that waits for a session."""
    send("s", "0")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    waiting = in_background(receiver.receive_messages, max_wait_time=3600)
    receiver.abandon_message(first, delay=20)
    clock.advance(19)
    assert waiting.running
    clock.advance(1)
    (first,) = waiting.result()
    receiver.abandon_message(first, delay=20)
    receiver.close()

    def next_session() -> list[str]:
        with client.get_queue_receiver(
            queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=3600
        ) as of_next_session:
            return texts(of_next_session.receive_messages(max_wait_time=0))

    accepting = in_background(next_session)
    clock.advance(20)
    assert accepting.result() == ["0"]


def test_expired_message_no_longer_holds_up_its_session(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Its delay ends with its time to live."""
    send("s", "0", time_to_live=timedelta(seconds=10))
    send("s", "1")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    receiver.abandon_message(first, delay=3600)
    clock.advance(9)
    session_of(receiver).renew_lock()
    assert drain(receiver) == []
    clock.advance(1)
    assert texts(drain(receiver)) == ["1"]


def test_deferred_message_does_not_hold_up_its_session(
    send: Callable[..., None],
    accept: Callable[..., ServiceBusReceiver],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A message that is fetched by number is outside the order."""
    send("s", "0", "1")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    receiver.defer_message(first)
    (fetched,) = receiver.receive_deferred_messages(first.sequence_number or 0)
    receiver.abandon_message(fetched, delay=60)
    assert texts(drain(receiver)) == ["1"]


def test_session_with_only_delayed_messages_is_listed(
    send: Callable[..., None], accept: Callable[..., ServiceBusReceiver], client: ServiceBusClient, queue_name: str
) -> None:
    """It has a message (B-186), which no accept of the next session finds."""
    send("s", "0")
    receiver = accept("s")
    (first,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
    receiver.abandon_message(first, delay=60)
    receiver.close()
    assert list(client.list_queue_sessions(queue_name)) == ["s"]
    with pytest.raises(OperationTimeoutError):
        accept()
