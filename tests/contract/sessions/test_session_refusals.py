# SPDX-License-Identifier: Apache-2.0
"""Refusals: messages and receivers without a session id, session receivers on queues without sessions."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusError,
)
from session_receiving import id_of, take, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


def test_send_without_a_session_is_refused(
    client: ServiceBusClient, queue_name: str, snapshot: Callable[[str], object], clock: ManualClock
) -> None:
    """Every way of sending refuses a message without session id and stores nothing (B-184)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("kept", session_id="a"))
        before = snapshot(queue_name)
        bare = ServiceBusMessage("bare")
        in_session = ServiceBusMessage("x", session_id="a")
        batch = sender.create_message_batch()
        with contextlib.suppress(InvalidOperationError):
            batch.add_message(bare)
        calls: list[Callable[[], object]] = [
            lambda: sender.send_messages(bare),
            lambda: sender.send_messages([bare]),
            lambda: sender.send_messages([in_session, bare]),
            lambda: sender.send_messages([bare, in_session]),
            lambda: sender.schedule_messages(bare, clock.now() + timedelta(hours=1)),
            lambda: sender.schedule_messages([in_session, bare], clock.now() + timedelta(hours=1)),
            lambda: sender.send_messages(ServiceBusMessage("x", partition_key="a")),
        ]
        if len(batch):
            calls.append(lambda: sender.send_messages(batch))
        for call in calls:
            with pytest.raises(InvalidOperationError):
                call()
            assert snapshot(queue_name) == before
        with pytest.raises(InvalidOperationError, match="The SessionId was not set on a message"):
            sender.send_messages(bare)


def test_arrow_without_sessions_is_refused(
    client: ServiceBusClient, queue_name: str, snapshot: Callable[[str], object]
) -> None:
    """A table with a row without session id is refused, and nothing of it is stored (B-184)."""
    pa = pytest.importorskip("pyarrow")
    tables = [
        pa.table({"body": [b"1", b"2"]}),
        pa.table({"body": [b"1", b"2"], "session_id": pa.array(["a", None])}),
        pa.table({"body": [b"1", b"2"], "session_id": pa.array([None, "b"])}),
    ]
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender:
        for table in tables:
            with pytest.raises(ServiceBusError, match="SessionId was not set"):
                sender.send_arrow(table)
            assert snapshot(queue_name) == before


def test_arrow_with_sessions(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """Rows go to their sessions in order, and are received and settled as tables (B-189, B-207)."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(
        {"body": [str(n).encode() for n in range(300)], "session_id": [f"s{n % 3}" for n in range(300)]},
        schema=pa.schema({"body": pa.binary(), "session_id": pa.string()}),
    )
    with client.get_queue_sender(queue_name) as sender:
        sender.send_arrow(table)
    for _ in range(3):
        receiver = accept()
        got = pa.table(receiver.receive_arrow(max_message_count=1000, max_wait_time=0))
        session_id = id_of(receiver)
        assert session_id is not None
        start = int(session_id[1:])
        assert got["body"].to_pylist() == [str(n).encode() for n in range(start, 300, 3)]
        assert set(got["session_id"].to_pylist()) == {session_id}
        assert got["locked_until_utc"].null_count == 100
        receiver.settle_arrow(got, "complete")
        assert take(receiver) == []
        receiver.close()
    with pytest.raises(OperationTimeoutError):
        accept()


def test_arrow_of_another_session_cannot_be_settled(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """Only the holder of the session can settle a table of its messages (B-200)."""
    pa = pytest.importorskip("pyarrow")
    send("a", "1")
    of_a, of_b = accept("a"), accept("b")
    table = pa.table(of_a.receive_arrow(max_message_count=10, max_wait_time=0))
    for outcome in ("complete", "abandon", "defer", "dead_letter"):
        with pytest.raises(MessageLockLostError):
            of_b.settle_arrow(table, outcome)
    of_a.settle_arrow(table, "complete")


def test_receiver_without_a_session_is_refused(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], snapshot: Callable[[str], object]
) -> None:
    """A queue with sessions refuses a receiver without a session (B-181, B-187)."""
    send("a", "x")
    before = snapshot(queue_name)
    for mode in ServiceBusReceiveMode:
        with client.get_queue_receiver(queue_name, receive_mode=mode, max_wait_time=0) as receiver:
            calls: list[Callable[[], object]] = [
                receiver.receive_messages,
                lambda receiver=receiver: next(receiver),  # type: ignore[misc]
                receiver.receive_arrow,
                lambda receiver=receiver: receiver.receive_deferred_messages(1),  # type: ignore[misc]
            ]
            for call in calls:
                with pytest.raises(InvalidOperationError, match="non-sessionful message receiver"):
                    call()
    assert snapshot(queue_name) == before


def test_session_receiver_needs_a_queue_with_sessions(
    client: ServiceBusClient, make_queue: Callable[..., str], snapshot: Callable[[str], object]
) -> None:
    """A queue without sessions refuses session receivers and listing (B-188)."""
    name = make_queue("bare")
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="a"))
    before = snapshot(name)
    for session_id in ("a", NEXT_AVAILABLE_SESSION):
        with (
            pytest.raises(InvalidOperationError, match="does not require sessions"),
            client.get_queue_receiver(name, session_id=session_id, max_wait_time=0),
        ):
            pass
    with pytest.raises(InvalidOperationError, match="does not require sessions"):
        list(client.list_queue_sessions(name))
    assert snapshot(name) == before
    with client.get_queue_receiver(name, max_wait_time=0) as receiver:
        assert receiver.session is None
        assert texts(take(receiver)) == ["x"]


def test_requires_session_is_fixed(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """`requires_session` cannot be updated (B-181)."""
    queue = admin.get_queue(queue_name)
    assert queue.requires_session is True
    queue.requires_session = False
    with pytest.raises(InvalidOperationError, match="requires_session"):
        admin.update_queue(queue)
    assert admin.get_queue(queue_name).requires_session is True


def test_deleting_the_queue_wakes_waiting_receivers(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    in_background: Callable[..., Any],
) -> None:
    """Waiting holders and acceptors get an error when the queue is deleted (B-019)."""
    holder = accept("a")
    receiving = in_background(holder.receive_messages, max_wait_time=60)
    other = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    accepting = in_background(other.receive_messages)
    time.sleep(0.05)
    admin.delete_queue(queue_name)
    for waiting in (receiving, accepting):
        with pytest.raises(MessagingEntityNotFoundError):
            waiting.result()
