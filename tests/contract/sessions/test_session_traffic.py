# SPDX-License-Identifier: Apache-2.0
"""Sessions with other receive modes, partitions, counts, browsing and expiry."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import InvalidOperationError, ServiceBusError, SessionCannotBeLockedError, SessionLockLostError
from session_receiving import take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


def test_receive_and_delete(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Messages are removed as they are received, in order; the session is still locked (B-146, B-200)."""
    send("a", "1", "2", "3")
    receiver = accept("a", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
    first, second = take(receiver, 2)
    assert texts([first, second]) == ["1", "2"]
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
        receiver.complete_message(first)
    receiver.close()
    assert texts(take(accept("a"))) == ["3"]


def test_prefetch(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """A prefetching receiver keeps the order and releases undelivered messages (B-205, B-207)."""
    send("a", *(str(number) for number in range(20)))
    receiver = accept("a", prefetch_count=10)
    assert texts(take(receiver, 1)) == ["0"]
    receiver.close()
    messages = take(accept("a"))
    assert texts(messages) == [str(number) for number in range(20)]
    assert {message.delivery_count for message in messages} == {0}


def test_duplicates_in_sessions(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None], partitioned: bool
) -> None:
    """A duplicate in the same session is dropped; one in another session only without partitions (B-221, B-222)."""
    name = make_queue("once", requires_session=True, requires_duplicate_detection=True)
    send("a", "1", "2", queue_name=name, message_id="same")
    send("b", "3", queue_name=name, message_id="same")
    kept = {}
    for session_id in "ab":
        with client.get_queue_receiver(name, session_id=session_id, max_wait_time=0) as receiver:
            kept[session_id] = texts(take(receiver))
    assert kept == {"a": ["1"], "b": ["3"] if partitioned else []}


def test_whole_session_is_in_one_partition(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], partitioned: bool
) -> None:
    """The session id is the key (B-063, B-071, B-189)."""
    for number in range(20):
        send(f"s{number}", *"abc")
    with client.get_queue_receiver(queue_name) as browser:
        messages = browser.peek_messages(100)
    assert len(messages) == 60
    for message in messages:
        assert message.session_id is not None
        assert message.partition_id == (oxbus.partition_id(message.session_id) if partitioned else None)


def test_batches_of_sessions(
    client: ServiceBusClient,
    queue_name: str,
    partitioned: bool,
    snapshot: Callable[[str], object],
    accept_all: Callable[[], set[str | None]],
) -> None:
    """A partitioned queue refuses a list with several sessions; a plain queue accepts it (B-080, B-084)."""
    messages = [ServiceBusMessage(text, session_id=text) for text in ("a", "b", "c")]
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender:
        if partitioned:
            with pytest.raises(InvalidOperationError):
                sender.send_messages(messages)
            assert snapshot(queue_name) == before
        else:
            sender.send_messages(messages)
            assert accept_all() == set("abc")


def test_peek(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A session receiver peeks at its session; other receivers peek at all sessions, without a lock (B-217, B-302)."""
    for number in range(5):
        for session_id in "abc":
            send(session_id, f"{session_id}{number}")
    holder = accept("b")
    assert texts(holder.peek_messages(3)) == ["b0", "b1", "b2"]
    assert texts(holder.peek_messages(10)) == ["b3", "b4"]
    assert holder.peek_messages(10) == []
    assert texts(holder.peek_messages(10, sequence_number=1)) == [f"b{number}" for number in range(5)]
    with client.get_queue_receiver(queue_name) as browser:
        seen = []
        while batch := browser.peek_messages(4):
            seen += texts(batch)
    assert Counter(seen) == Counter(f"{session_id}{number}" for session_id in "abc" for number in range(5))
    assert len(take(holder)) == 5


def test_counts(
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
) -> None:
    """Messages of sessions are counted like others, whether locked or not (B-389)."""
    send("a", "1", "2", "3")
    send("b", "4")
    receiver = accept("a")

    def counts() -> tuple[int | None, ...]:
        runtime = admin.get_queue_runtime_properties(queue_name)
        return (runtime.active_message_count, runtime.locked_message_count, runtime.deferred_message_count)

    assert counts()[:2] == (4, 0)
    first, second = take(receiver, 2)
    assert counts()[:2] == (4, 2)
    receiver.complete_message(first)
    receiver.defer_message(second)
    assert counts()[1:] == (0, 1)
    receiver.close()
    assert counts()[1:] == (0, 1)


def test_disabled_queue_accepts_no_session(
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
) -> None:
    """No session can be accepted while receiving is disabled (B-034)."""
    send("a", "1")
    queue = admin.get_queue(queue_name)
    queue.status = "ReceiveDisabled"
    admin.update_queue(queue)
    for session_id in ("a", NEXT_AVAILABLE_SESSION):
        with pytest.raises(ServiceBusError, match="forbids receiving"):
            accept(session_id)
    queue.status = "Active"
    admin.update_queue(queue)
    assert texts(take(accept())) == ["1"]


def test_fetch_of_deferred_messages_beside_a_close(
    accept: Callable[..., ServiceBusReceiver],
    client: ServiceBusClient,
    queue_name: str,
    in_background: Callable[..., Any],
) -> None:
    """The next holder can fetch them, however the fetch and the close interleave (B-205, B-278).

    Releasing a session during a fetch used to leave its messages locked for ever.
    """
    for attempt in range(20):
        session_id = f"session {attempt}"
        with client.get_queue_sender(queue_name) as sender:
            sender.send_messages([ServiceBusMessage(b"x", session_id=session_id) for _ in range(400)])
        holder = accept(session_id)
        messages = holder.receive_messages(400)
        holder.defer_messages(messages)
        numbers = [message.sequence_number for message in messages]
        fetch = in_background(holder.receive_deferred_messages, numbers)
        holder.close()
        # The receiver may be closed already, or lose its session during the call.
        with contextlib.suppress(ValueError, SessionLockLostError):
            fetch.result()
        assert len(accept(session_id).receive_deferred_messages(numbers)) == 400


@pytest.mark.parametrize("dead_letter_on_expiry", [True, False], ids=["dead letters", "dropped"])
def test_expired_messages_of_a_session(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    send: Callable[..., None],
    clock: ManualClock,
    dead_letter_on_expiry: bool,
) -> None:
    """Only expired messages are removed unless `expire_whole_sessions` is set (B-209, B-253)."""
    name = make_queue("short", requires_session=True, dead_lettering_on_message_expiration=dead_letter_on_expiry)
    send("a", "1", queue_name=name)
    send("a", "2", queue_name=name, time_to_live=timedelta(seconds=10))
    send("a", "3", queue_name=name)
    clock.advance(11)
    with client.get_queue_receiver(name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["1", "3"]
    with client.get_queue_receiver(name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert texts(take(dead_letters)) == (["2"] if dead_letter_on_expiry else [])


@pytest.mark.parametrize("dead_letter_on_expiry", [True, False], ids=["dead letters", "dropped"])
def test_whole_session_expires_if_enabled(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    send: Callable[..., None],
    clock: ManualClock,
    dead_letter_on_expiry: bool,
) -> None:
    """With `expire_whole_sessions` one expired message expires all ready ones of its session (B-209, B-257).

    Messages in other states stay, and nothing expires until a receive.
    """
    name = make_queue(
        "short",
        requires_session=True,
        dead_lettering_on_message_expiration=dead_letter_on_expiry,
        expire_whole_sessions=True,
    )
    assert admin.get_queue(name).expire_whole_sessions is True
    send("a", "a1", "a2", queue_name=name)
    send("a", "a3", queue_name=name, time_to_live=timedelta(seconds=10))
    send("b", "b1", queue_name=name)
    clock.advance(11)
    with client.get_queue_receiver(name, session_id="b", max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["b1"]
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        assert take(receiver) == []
        send("a", "a4", queue_name=name)
        assert texts(take(receiver)) == ["a4"]
    with client.get_queue_receiver(name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert texts(take(dead_letters)) == (["a1", "a2", "a3"] if dead_letter_on_expiry else [])


def test_whole_session_expiry_can_be_switched(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """It is off by default and can be updated (B-209)."""
    queue = admin.get_queue(queue_name)
    assert queue.expire_whole_sessions is False
    queue.expire_whole_sessions = True
    admin.update_queue(queue)
    assert admin.get_queue(queue_name).expire_whole_sessions is True
