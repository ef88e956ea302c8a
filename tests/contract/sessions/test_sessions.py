# SPDX-License-Identifier: Apache-2.0
"""Accepting sessions by id or next available, by one receiver at a time (B-181 to B-209, R-10)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError, SessionCannotBeLockedError
from session_receiving import LOCK, PAST_THE_LOCK, id_of, session_of, take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.testing import ManualClock


def test_accept_by_id(client: ServiceBusClient, queue_name: str, send: Callable[..., None], clock: ManualClock) -> None:
    """A receiver accepts the named session and gets only its messages (B-192, B-200, B-201)."""
    send("a", "a1", "a2")
    send("b", "b1")
    with client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0) as receiver:
        session = session_of(receiver)
        assert (session.session_id, session.locked_until_utc) == ("a", clock.now() + LOCK)
        messages = take(receiver)
        assert texts(messages) == ["a1", "a2"]
        assert {message.session_id for message in messages} == {"a"}
        for message in messages:
            receiver.complete_message(message)
        assert list(receiver) == []


def test_receiver_accepts_at_its_first_use(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """Creating a receiver locks nothing; its first use does, also through `session` (B-192)."""
    lazy = client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0)
    accept("a").close()
    assert session_of(lazy).session_id == "a"
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    lazy.close()
    accept("a")


@pytest.mark.parametrize("session_id", ["nobody", "", "ü" * 128])
def test_accept_an_empty_session(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], session_id: str
) -> None:
    """An empty session can be accepted by id, and its holder gets later messages (B-183, B-193, B-200)."""
    receiver = accept(session_id)
    assert take(receiver) == []
    send(session_id, "late")
    (message,) = take(receiver)
    assert (str(message), message.session_id) == ("late", session_id)
    with pytest.raises(OperationTimeoutError):
        accept()


def test_empty_id_is_an_id(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], accept_all: Callable[[], set[str | None]]
) -> None:
    """The empty string is a valid session id, for accept-next too (B-183)."""
    send("", "x")
    send("a", "y")
    assert accept_all() == {"", "a"}
    assert texts(take(accept(""))) == ["x"]


@pytest.mark.parametrize("session_id", ["x" * 129, 7, b"a", ["a"]], ids=repr)
def test_bad_session_id(client: ServiceBusClient, queue_name: str, session_id: Any) -> None:
    """An id is text of at most 128 characters (B-182)."""
    with (
        pytest.raises((TypeError, ValueError)),
        client.get_queue_receiver(queue_name, session_id=session_id, max_wait_time=0),
    ):
        pass


def test_held_session_cannot_be_accepted(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """A second receiver is refused with the service's text until the lock ends (B-194)."""
    send("a", "x")
    accept("a")
    with pytest.raises(SessionCannotBeLockedError, match="requested session 'a' cannot be accepted") as refusal:
        accept("a")
    assert refusal.value.condition == "com.microsoft:session-cannot-be-locked"
    with pytest.raises(OperationTimeoutError):
        accept()
    clock.advance(PAST_THE_LOCK)
    assert texts(take(accept("a"))) == ["x"]


def test_accept_next(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Accept-next returns each session with messages once, and the receiver shows its id (B-195, B-199)."""
    for session_id in "abc":
        send(session_id, f"{session_id}1", f"{session_id}2")
    receivers = [accept() for _ in range(3)]
    assert {id_of(receiver) for receiver in receivers} == set("abc")
    for receiver in receivers:
        assert texts(take(receiver)) == [f"{id_of(receiver)}1", f"{id_of(receiver)}2"]
    with pytest.raises(OperationTimeoutError):
        accept()


def test_no_session_is_a_timeout(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A timed-out accept raises an error and locks no later session (B-196, B-197)."""
    with pytest.raises(OperationTimeoutError) as refusal:
        accept(max_wait_time=0.05)
    assert refusal.value.condition == "com.microsoft:timeout"
    lazy = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
    with pytest.raises(OperationTimeoutError):
        lazy.receive_messages()
    send("a", "x")
    with accept("a") as receiver:
        assert texts(take(receiver)) == ["x"]
    # The receiver that timed out can retry.
    assert texts(take(lazy)) == ["x"]
    lazy.close()


def test_accept_waits(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """Accept-next waits until a session is available (B-196)."""

    def work() -> list[str]:
        with client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            return texts(receiver.receive_messages())

    waiting = in_background(work)
    time.sleep(0.05)
    assert waiting.running
    send("a", "x")
    assert waiting.result() == ["x"]


def test_accept_next_skips_sessions_without_ready_messages(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """Accept-next skips sessions with only deferred, scheduled or settled messages; accept by id does not (B-198)."""
    send("deferred", "d")
    receiver = accept("deferred")
    (deferred,) = take(receiver)
    receiver.defer_message(deferred)
    receiver.close()
    send("done", "x")
    receiver = accept("done")
    receiver.complete_message(take(receiver)[0])
    receiver.close()
    send("gone", "x", time_to_live=timedelta(seconds=5))
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("s", session_id="scheduled"), clock.now() + timedelta(seconds=30))
    clock.advance(10)
    with pytest.raises(OperationTimeoutError):
        accept()
    assert texts(accept("deferred").receive_deferred_messages(deferred.sequence_number)) == ["d"]
    clock.advance(30)
    assert id_of(accept()) == "scheduled"


def test_options_that_are_refused_lock_nothing(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """A receiver with invalid options locks no session (B-192)."""
    with (
        pytest.raises(ValueError, match="partition"),
        client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0, partition_id=60),
    ):
        pass
    with pytest.raises(ValueError, match="sub-queue"):
        client.get_queue_receiver(queue_name, session_id="a", sub_queue="deadletter")
    accept("a")


def test_closing_ends_an_accept_that_waits(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    in_background: Callable[..., Any],
) -> None:
    """A receiver closed while it waits for a session accepts none (B-197)."""
    receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    waiting = in_background(receiver.receive_messages)
    time.sleep(0.05)
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        waiting.result()
    send("a", "x")
    assert id_of(accept()) == "a"
