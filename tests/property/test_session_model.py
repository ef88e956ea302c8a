# SPDX-License-Identifier: Apache-2.0
"""A queue with sessions against a naive model: accepts, receives, settlements, states, lost and closed sessions.

The model is a dict from sequence number to record and one from session id to holder, written from docs/behaviour.md.
A session's messages are strictly in order, so the model knows the result of each receive.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import oxbus
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from oxbus import NEXT_AVAILABLE_SESSION, Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusMessageState
from oxbus.exceptions import (
    MessageNotFoundError,
    OperationTimeoutError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK = timedelta(seconds=60)
MAX_DELIVERY_COUNT = 3
PARTITIONS = 4
SESSIONS = ["", "a", "b", "c", "d", "e"]
State = Literal["ready", "deferred", "scheduled", "dead", "gone"]
STATES = {
    "ready": ServiceBusMessageState.ACTIVE,
    "deferred": ServiceBusMessageState.DEFERRED,
    "scheduled": ServiceBusMessageState.SCHEDULED,
}


@dataclass
class Record:
    """The model's knowledge of one message."""

    body: str
    session: str
    state: State = "ready"
    count: int = 0
    due_at: datetime | None = None
    is_locked: bool = False
    reason: str | None = None


@dataclass
class Holder:
    """A receiver that has or had accepted a session."""

    receiver: ServiceBusReceiver
    session_id: str
    locked_until: datetime
    lost: bool = False
    messages: list[ServiceBusReceivedMessage] = field(default_factory=list)

    @property
    def session(self) -> ServiceBusSession:
        """Its session."""
        assert self.receiver.session is not None
        return self.receiver.session


class SessionMachine(RuleBasedStateMachine):
    """Drives a queue with sessions and the model with the same calls."""

    partitioned = True
    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="oxbus-sessions-")) if self.durable else None
        self.clock = ManualClock(START)
        self.open()
        ServiceBusAdministrationClient(self.namespace).create_queue(
            "q",
            requires_session=True,
            enable_partitioning=self.partitioned,
            lock_duration=LOCK,
            max_delivery_count=MAX_DELIVERY_COUNT,
        )
        self.records: dict[int, Record] = {}
        self.holders: list[Holder] = []
        self.states: dict[str, bytes] = {}
        self.sent = 0

    def open(self) -> None:
        """Open the namespace."""
        options = {} if self.directory is None else {"path": self.directory / "bus", "durability": "os"}
        self.namespace = Namespace(clock=self.clock, partitions=PARTITIONS, **options)  # type: ignore[arg-type]
        self.client = ServiceBusClient(self.namespace)
        self.sender = self.client.get_queue_sender("q")

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()
        if self.directory is not None:
            shutil.rmtree(self.directory)

    def numbers(self, session_id: str, state: State, *, is_locked: bool) -> list[int]:
        """Numbers of a session's messages with a state, locked or not, in order."""
        return [
            number
            for number, record in sorted(self.records.items())
            if (record.session, record.state, record.is_locked) == (session_id, state, is_locked)
        ]

    def holder_of(self, session_id: str) -> Holder | None:
        """The present holder of a session."""
        return next((it for it in self.holders if it.session_id == session_id and not it.lost), None)

    def browse(self, sub_queue: str | None = None) -> dict[int, ServiceBusReceivedMessage]:
        """All messages that peek shows, by number."""
        seen: dict[int, ServiceBusReceivedMessage] = {}
        with self.client.get_queue_receiver("q", sub_queue=sub_queue) as browser:
            while batch := browser.peek_messages(max_message_count=7):
                seen |= {message.sequence_number: message for message in batch}
        return seen

    def learn(self, expected: list[Record]) -> None:
        """Peek to find the numbers of new messages; a session stays in its partition (B-189)."""
        by_body = {record.body: record for record in expected}
        new = {number: message for number, message in self.browse().items() if number not in self.records}
        assert sorted(map(str, new.values())) == sorted(by_body)
        for number, message in sorted(new.items()):
            record = by_body[str(message)]
            assert message.session_id == record.session
            assert number >> 48 == (oxbus.partition_id(record.session, PARTITIONS) if self.partitioned else 0)
            self.records[number] = record

    def release(self, number: int, *, counted: bool) -> None:
        """End a delivery without settlement; too many dead-letter the message (B-178)."""
        record = self.records[number]
        record.is_locked = False
        record.count += counted
        if record.count >= MAX_DELIVERY_COUNT:
            record.state, record.reason = "dead", "MaxDeliveryCountExceeded"

    def end(self, holder: Holder, *, counted: bool) -> None:
        """Take a session from its holder (B-205, B-206); fetched messages were counted at the fetch (B-281)."""
        holder.lost = True
        for number in self.numbers(holder.session_id, "ready", is_locked=True):
            self.release(number, counted=counted)
        for number in self.numbers(holder.session_id, "deferred", is_locked=True):
            if counted:
                self.release(number, counted=False)
            else:
                self.records[number].is_locked = False

    def keep(self, receiver: ServiceBusReceiver) -> Holder:
        """Record an accepted session."""
        assert receiver.session is not None
        assert receiver.session.session_id is not None
        holder = Holder(receiver, receiver.session.session_id, self.clock.now() + LOCK)
        assert receiver.session.locked_until_utc == holder.locked_until
        self.holders.append(holder)
        return holder

    @rule(session_id=st.sampled_from(SESSIONS), count=st.integers(1, 3), as_list=st.booleans())
    def send(self, session_id: str, count: int, as_list: bool) -> None:
        """Send messages one by one or as one batch (B-063)."""
        records = [Record(f"m{self.sent + number}", session_id) for number in range(count)]
        self.sent += count
        messages = [ServiceBusMessage(record.body, session_id=session_id) for record in records]
        for part in [messages] if as_list else messages:
            self.sender.send_messages(part)
        self.learn(records)

    @rule(session_id=st.sampled_from(SESSIONS), seconds=st.integers(1, 90))
    def schedule(self, session_id: str, seconds: int) -> None:
        """Schedule a message (B-232)."""
        due_at = self.clock.now() + timedelta(seconds=seconds)
        record = Record(f"m{self.sent}", session_id, "scheduled", due_at=due_at)
        self.sent += 1
        (number,) = self.sender.schedule_messages(ServiceBusMessage(record.body, session_id=session_id), due_at)
        self.records[number] = record

    @rule(session_id=st.sampled_from(SESSIONS))
    def accept(self, session_id: str) -> None:
        """Accept a session by id, unless it is held (B-193, B-194)."""
        receiver = self.client.get_queue_receiver("q", session_id=session_id, max_wait_time=0)
        if self.holder_of(session_id):
            with pytest.raises(SessionCannotBeLockedError):
                receiver.__enter__()
        else:
            assert self.keep(receiver.__enter__()).session_id == session_id

    @rule()
    def accept_next(self) -> None:
        """Accept the next available session (B-195, B-198)."""
        available = {
            session_id
            for session_id in SESSIONS
            if not self.holder_of(session_id) and self.numbers(session_id, "ready", is_locked=False)
        }
        receiver = self.client.get_queue_receiver("q", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
        if available:
            assert self.keep(receiver.__enter__()).session_id in available
        else:
            with pytest.raises(OperationTimeoutError):
                receiver.__enter__()

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), count=st.integers(1, 4))
    def receive(self, data: st.DataObject, count: int) -> None:
        """A holder gets exactly the first messages of its session; a former one gets an error (B-203, B-207)."""
        holder = data.draw(st.sampled_from(self.holders))
        if holder.lost:
            with pytest.raises(SessionLockLostError):
                holder.receiver.receive_messages(count)
            return
        messages = holder.receiver.receive_messages(count)
        expected = self.numbers(holder.session_id, "ready", is_locked=False)[:count]
        assert [message.sequence_number for message in messages] == expected
        for message in messages:
            record = self.records[message.sequence_number]
            assert (str(message), message.delivery_count) == (record.body, record.count)
            record.is_locked = True
        holder.messages += messages

    @precondition(lambda self: any(holder.messages for holder in self.holders))
    @rule(data=st.data(), verb=st.sampled_from(["complete", "abandon", "defer", "dead_letter"]))
    def settle(self, data: st.DataObject, verb: str) -> None:
        """Settle a message of the session, unless it is lost (B-162 to B-165, B-203)."""
        holder = data.draw(st.sampled_from([holder for holder in self.holders if holder.messages]))
        message = holder.messages.pop(data.draw(st.integers(0, len(holder.messages) - 1)))
        call = getattr(holder.receiver, f"{verb}_message")
        if holder.lost:
            with pytest.raises(SessionLockLostError):
                call(message)
            return
        call(message)
        record = self.records[message.sequence_number]
        if verb == "abandon":
            self.release(message.sequence_number, counted=record.state == "ready")
            return
        record.is_locked = False
        if verb == "complete":
            record.state = "gone"
        elif verb == "defer":
            record.state = "deferred"
        else:
            record.state = "dead"

    @precondition(lambda self: self.holders and self.records)
    @rule(data=st.data())
    def fetch_deferred(self, data: st.DataObject) -> None:
        """Only the holder of the session can fetch its deferred messages (B-276, B-278, B-281)."""
        holder = data.draw(st.sampled_from(self.holders))
        number = data.draw(st.sampled_from(sorted(self.records)))
        record = self.records[number]
        if holder.lost:
            with pytest.raises(SessionLockLostError):
                holder.receiver.receive_deferred_messages(number)
        elif (record.session, record.state, record.is_locked) != (holder.session_id, "deferred", False):
            with pytest.raises(MessageNotFoundError):
                holder.receiver.receive_deferred_messages(number)
        else:
            (message,) = holder.receiver.receive_deferred_messages(number)
            record.count += 1
            assert message.delivery_count == record.count
            record.is_locked = True
            holder.messages.append(message)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """A holder renews its lock (B-202)."""
        holder = data.draw(st.sampled_from(self.holders))
        if holder.lost:
            with pytest.raises(SessionLockLostError):
                holder.session.renew_lock()
        else:
            holder.locked_until = holder.session.renew_lock()
            assert holder.locked_until == self.clock.now() + LOCK

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), state=st.sampled_from([None, b"", b"x", b"a longer one"]))
    def set_state(self, data: st.DataObject, state: bytes | None) -> None:
        """A holder sets or clears the state and reads the last one (B-210 to B-212)."""
        holder = data.draw(st.sampled_from(self.holders))
        if holder.lost:
            with pytest.raises(SessionLockLostError):
                holder.session.set_state(state)
            return
        assert holder.session.get_state() == self.states.get(holder.session_id)
        holder.session.set_state(state)
        self.states.pop(holder.session_id, None)
        if state is not None:
            self.states[holder.session_id] = state

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Close a receiver: no delivery is counted, unless its session is lost already (B-205)."""
        holder = data.draw(st.sampled_from(self.holders))
        holder.receiver.close()
        self.holders.remove(holder)
        if not holder.lost:
            self.end(holder, counted=False)

    @rule(seconds=st.sampled_from([1, 20, 40, 61]))
    def advance(self, seconds: int) -> None:
        """Advance the time: locks expire, scheduled messages arrive with new numbers (B-112, B-206)."""
        self.clock.advance(seconds)
        for holder in self.holders:
            if not holder.lost and holder.locked_until <= self.clock.now():
                self.end(holder, counted=True)
        due = [
            record
            for record in self.records.values()
            if record.state == "scheduled" and record.due_at is not None and record.due_at <= self.clock.now()
        ]
        for record in due:
            record.state = "gone"
        self.learn([Record(record.body, record.session) for record in due])

    @invariant()
    def contents_are_the_model(self) -> None:
        """Peek and the list of sessions match the model (B-186, B-214, B-217)."""
        shown = {number: (str(m), m.state, m.delivery_count) for number, m in self.browse().items()}
        alive = {number: record for number, record in self.records.items() if record.state in STATES}
        assert shown == {number: (it.body, STATES[it.state], it.count) for number, it in alive.items()}
        dead = {n: (str(m), m.delivery_count, m.dead_letter_reason) for n, m in self.browse("deadletter").items()}
        dead_lettered = {number: record for number, record in self.records.items() if record.state == "dead"}
        assert dead == {number: (it.body, it.count, it.reason) for number, it in dead_lettered.items()}
        active = {it.session for it in self.records.values() if it.state == "ready"}
        listed = set(self.client.list_queue_sessions("q"))
        assert active | self.states.keys() <= listed
        fetched = {it.session for it in self.records.values() if it.state == "deferred" and it.is_locked}
        assert listed <= active | self.states.keys() | fetched


class PlainSessionMachine(SessionMachine):
    """The same on a queue that is not partitioned."""

    partitioned = False


class DurableSessionMachine(SessionMachine):
    """The same in a directory that is closed and opened again."""

    durable = True

    @rule(checkpoint=st.booleans())
    def reopen(self, checkpoint: bool) -> None:
        """Close and open: messages and states stay, locks do not, and their deliveries count (B-177, R-07, R-15)."""
        if checkpoint:
            self.namespace.checkpoint()
        self.namespace.close()
        for holder in self.holders:
            if not holder.lost:
                self.end(holder, counted=True)
        self.holders.clear()
        self.open()


class PlainDurableSessionMachine(DurableSessionMachine):
    """The same on a queue that is not partitioned."""

    partitioned = False


BUDGET = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
DURABLE_BUDGET = settings(BUDGET, max_examples=20)
TestPartitionedSessions = pytest.mark.timeout(900)(SessionMachine.TestCase)
TestPartitionedSessions.settings = BUDGET
TestPlainSessions = pytest.mark.timeout(900)(PlainSessionMachine.TestCase)
TestPlainSessions.settings = BUDGET
TestDurablePartitionedSessions = pytest.mark.timeout(900)(DurableSessionMachine.TestCase)
TestDurablePartitionedSessions.settings = DURABLE_BUDGET
TestDurablePlainSessions = pytest.mark.timeout(900)(PlainDurableSessionMachine.TestCase)
TestDurablePlainSessions.settings = DURABLE_BUDGET
