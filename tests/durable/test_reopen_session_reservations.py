# SPDX-License-Identifier: Apache-2.0
"""Reservations of a queue with sessions after a namespace was closed, or its process died."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import WAYS, Bus
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError, SessionCannotBeLockedError
from reserving import LOCK_SECONDS, Consumer, numbers_of

if TYPE_CHECKING:
    from oxbus.testing import ManualClock

pytest.importorskip("pyarrow")

SESSIONS = ("a", "b", "c", "d")
EACH = 5


@pytest.fixture
def sessions(bus: Bus, partitioned: bool) -> Bus:
    """The bus with messages in the sessions of its queue `s`."""
    bus.admin.create_queue("s", enable_partitioning=partitioned, requires_session=True)
    fill(bus, 0)
    return bus


def fill(bus: Bus, first: int) -> None:
    """Send numbered messages to all sessions, in turn."""
    with bus.client.get_queue_sender("s") as sender:
        for number in range(first, first + EACH):
            for session in SESSIONS:
                sender.send_messages(ServiceBusMessage(str(number), session_id=session))


def again(bus: Bus, epoch: int) -> Consumer:
    """The same program, which continues after the reopen: it does not acquire."""
    consumer = Consumer.__new__(Consumer)
    consumer.handle, consumer.name, consumer.epoch, consumer.done = bus.namespace._reservations("s"), "c", epoch, 0
    return consumer


def by_session(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The numbers of rows by session, in the order of the rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["session_id"]].append(int(row["body"]))
    return dict(found)


def taken(bus: Bus, session: str) -> list[int]:
    """Receive and complete all messages of a session."""
    with bus.client.get_queue_receiver("s", session_id=session, max_wait_time=0) as receiver:
        found = receiver.receive_messages(max_message_count=100)
        receiver.complete_messages(found)
        return [int(str(message)) for message in found]


@pytest.mark.parametrize("way", WAYS)
def test_sessions_are_held_again(sessions: Bus, way: str) -> None:
    """Before any receiver can take them; newer messages wait, and no delivery is counted."""
    consumer = Consumer(sessions.namespace, "s")
    plan = consumer.reserve(1, sessions=2)
    held = set(consumer.sessions(plan))
    sessions.reopen(way)
    consumer = again(sessions, consumer.epoch)
    assert consumer.plan(1) == plan
    assert set(consumer.sessions(plan)) == held
    for session in held:
        with pytest.raises(SessionCannotBeLockedError):
            taken(sessions, session)
    fill(sessions, EACH)
    for _ in range(len(SESSIONS) - len(held)):
        receiver = sessions.client.get_queue_receiver("s", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
        with receiver:
            assert receiver.session is not None
            assert receiver.session.session_id not in held
            receiver.complete_messages(receiver.receive_messages(max_message_count=100))
    with pytest.raises(OperationTimeoutError):
        sessions.client.get_queue_receiver("s", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0).__enter__()
    rows = consumer.read(plan)
    assert by_session(rows) == {key: list(range(EACH)) for key in held}
    assert {row["delivery_count"] for row in rows} == {0}
    assert consumer.complete(1) == (2 * EACH, 0)
    sessions.reopen(way)
    for session in held:
        assert taken(sessions, session) == list(range(EACH, 2 * EACH))


@pytest.mark.parametrize("way", WAYS)
def test_states_and_settlements_survive_together(sessions: Bus, way: str) -> None:
    """What was settled is gone, its state is there; the rest of the batch is read again."""
    consumer = Consumer(sessions.namespace, "s")
    plan = consumer.reserve(1)
    settled = [row["sequence_number"] for row in consumer.read(plan) if row["session_id"] == "a"]
    assert consumer.settle(plan, settled, "complete", session_states={settled[-1]: b"done"}) == EACH
    sessions.reopen(way)
    newer = Consumer(sessions.namespace, "s")
    again = newer.plan(1)
    assert (again["attempt"], again["missing"]) == (2, 0)
    assert by_session(newer.read(again)) == {key: list(range(EACH)) for key in "bcd"}
    with sessions.client.get_queue_receiver("s", session_id="a") as receiver:
        assert receiver.session is not None
        assert receiver.session.get_state() == b"done"
    assert newer.complete(1) == (3 * EACH, 0)


@pytest.mark.parametrize("way", WAYS)
def test_expired_and_cancelled_ones_stay_so(sessions: Bus, way: str, clock: ManualClock) -> None:
    """Their sessions are free; the number covers what no one took."""
    consumer = Consumer(sessions.namespace, "s")
    plan = consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    assert taken(sessions, "a") == list(range(EACH))
    sessions.reopen(way)
    consumer = again(sessions, consumer.epoch)
    left = consumer.plan(1)
    assert left["missing"] == EACH
    assert set(numbers_of(left)) < set(numbers_of(plan))
    assert by_session(consumer.read(left)) == {key: list(range(EACH)) for key in "bcd"}
    assert consumer.handle.cancel_reservation("c") == 3 * EACH
    sessions.reopen(way)
    for session in "bcd":
        assert taken(sessions, session) == list(range(EACH))
