# SPDX-License-Identifier: Apache-2.0
"""A durable queue against a simple model: random work, ended and reopened at random moments.

The model is a dict of sequence number to record. Locks do not expire here: they end with their process.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import oxbus
import pytest
from durable_bus import PARTITIONS, WAYS, Bus
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from oxbus.exceptions import MessageNotFoundError
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage

START = datetime(2026, 3, 1, tzinfo=UTC)
MAX_DELIVERY_COUNT = 3
LOW_48_BITS = (1 << 48) - 1
KEYS = [None, "a", "b", "c"]
State = Literal["ready", "deferred", "scheduled", "dead", "gone"]
STATES = {
    "ready": ServiceBusMessageState.ACTIVE,
    "deferred": ServiceBusMessageState.DEFERRED,
    "scheduled": ServiceBusMessageState.SCHEDULED,
}


@dataclass
class Record:
    """The model's state of one message."""

    body: str
    key: str | None
    state: State = "ready"
    count: int = 0
    due_at: datetime | None = None
    locked_message: ServiceBusReceivedMessage | None = None
    reason: str | None = None


class DurableQueueMachine(RuleBasedStateMachine):
    """Applies the same calls to a durable queue and to the model."""

    partitioned = True

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="oxbus-model-"))
        self.clock = ManualClock(START)
        self.bus = Bus(self.directory / "bus", self.clock, durability="os")
        self.bus.open()
        self.bus.admin.create_queue(
            "q",
            enable_partitioning=self.partitioned,
            lock_duration=timedelta(hours=1),
            max_delivery_count=MAX_DELIVERY_COUNT,
        )
        self.records: dict[int, Record] = {}
        self.highest: dict[int, int] = {}
        self.gaps_allowed = False
        self.sent = 0

    def teardown(self) -> None:
        """Close everything."""
        self.bus.close()
        shutil.rmtree(self.directory)

    def numbers(self, *states: State, is_locked: bool) -> list[int]:
        """Numbers of the messages in one of the states, locked by a receiver or not."""
        return [
            number
            for number, record in sorted(self.records.items())
            if record.state in states and (record.locked_message is not None) is is_locked
        ]

    def pick(self, data: st.DataObject, *states: State, is_locked: bool) -> int | None:
        """One of these numbers, or None if there is none."""
        numbers = self.numbers(*states, is_locked=is_locked)
        return data.draw(st.sampled_from(numbers)) if numbers else None

    def note(self, number: int, record: Record) -> None:
        """Add a message; its number is the next of its partition, or a later one after a crash (B-105)."""
        partition_id = number >> 48
        if self.partitioned and record.key is not None:
            assert partition_id == oxbus.partition_id(record.key, PARTITIONS)
        counter, before = number & LOW_48_BITS, self.highest.get(partition_id, 0)
        assert counter > before
        assert counter == before + 1 or self.gaps_allowed
        self.highest[partition_id] = counter
        self.records[number] = record

    def learn(self, expected: list[Record]) -> None:
        """Find the numbers of new messages by browsing."""
        new = {m.sequence_number: m for m in self.bus.peek() if m.sequence_number not in self.records}
        by_body = {record.body: record for record in expected}
        assert sorted(map(str, new.values())) == sorted(by_body)
        for number, message in sorted(new.items()):
            self.note(number, by_body[str(message)])

    def release(self, record: Record, *, counted: bool) -> None:
        """End a delivery without settlement; the message moves to the dead letters at the maximum count (B-178)."""
        record.locked_message = None
        record.count += counted
        if record.count >= MAX_DELIVERY_COUNT:
            record.state, record.reason = "dead", "MaxDeliveryCountExceeded"

    @rule(key=st.sampled_from(KEYS), count=st.integers(1, 3), as_list=st.booleans())
    def send(self, key: str | None, count: int, as_list: bool) -> None:
        """Send messages one by one or as one batch (B-061, B-079)."""
        records = [Record(f"m{self.sent + number}", key) for number in range(count)]
        self.sent += count
        messages = [ServiceBusMessage(record.body, partition_key=key) for record in records]
        with self.bus.sender() as sender:
            for part in [messages] if as_list else messages:
                sender.send_messages(part)
        self.learn(records)

    @rule(key=st.sampled_from(KEYS), seconds=st.integers(1, 60))
    def schedule(self, key: str | None, seconds: int) -> None:
        """Schedule a message (B-232)."""
        record = Record(f"m{self.sent}", key, "scheduled", due_at=self.clock.now() + timedelta(seconds=seconds))
        self.sent += 1
        assert record.due_at is not None
        with self.bus.sender() as sender:
            (number,) = sender.schedule_messages(ServiceBusMessage(record.body, partition_key=key), record.due_at)
        self.note(number, record)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a scheduled message (B-238)."""
        number = self.pick(data, "scheduled", is_locked=False)
        if number is not None:
            with self.bus.sender() as sender:
                sender.cancel_scheduled_messages(number)
            self.records[number].state = "gone"

    @rule(count=st.integers(1, 4), delete=st.booleans())
    def receive(self, count: int, delete: bool) -> None:
        """Receive under locks, or receive and delete (B-146)."""
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE if delete else ServiceBusReceiveMode.PEEK_LOCK
        with self.bus.client.get_queue_receiver("q", receive_mode=mode) as receiver:
            messages = receiver.receive_messages(max_message_count=count, max_wait_time=0)
        for message in messages:
            record = self.records[message.sequence_number]
            assert (record.state, record.locked_message) == ("ready", None)
            assert (str(message), message.delivery_count) == (record.body, record.count)
            if delete:
                record.state = "gone"
            else:
                record.locked_message = message

    @rule(data=st.data(), verb=st.sampled_from(["complete", "abandon", "defer", "dead_letter"]))
    def settle(self, data: st.DataObject, verb: str) -> None:
        """Settle a locked message (B-162 to B-165)."""
        number = self.pick(data, "ready", "deferred", is_locked=True)
        if number is None:
            return
        record = self.records[number]
        getattr(self.bus.receiver(), f"{verb}_message")(record.locked_message)
        if verb == "abandon":
            self.release(record, counted=record.state == "ready")
            return
        record.locked_message = None
        if verb == "complete":
            record.state = "gone"
        elif verb == "defer":
            record.state = "deferred"
        else:
            record.state, record.reason = "dead", None

    @rule(data=st.data())
    def fetch_deferred(self, data: st.DataObject) -> None:
        """Fetch by number: a deferred message, with a counted delivery, or none (B-276, B-281)."""
        number = self.pick(data, "ready", "deferred", "gone", is_locked=False)
        if number is None:
            return
        record = self.records[number]
        if record.state == "deferred":
            (record.locked_message,) = self.bus.receiver().receive_deferred_messages(number)
            record.count += 1
            assert record.locked_message.delivery_count == record.count
        else:
            with pytest.raises(MessageNotFoundError):
                self.bus.receiver().receive_deferred_messages(number)

    @rule(seconds=st.integers(1, 40))
    def advance(self, seconds: int) -> None:
        """Let time pass while the namespace is open."""
        self.clock.advance(seconds)
        self.activate()

    def activate(self) -> None:
        """Scheduled messages that are due get new numbers (B-112, B-235)."""
        due = [
            record
            for record in self.records.values()
            if record.state == "scheduled" and record.due_at is not None and record.due_at <= self.clock.now()
        ]
        for record in due:
            record.state = "gone"
        self.learn([Record(record.body, record.key) for record in due])

    @rule()
    def checkpoint(self) -> None:
        """Write a checkpoint; it must not change anything."""
        self.bus.namespace.checkpoint()

    @rule(way=st.sampled_from(WAYS), seconds=st.sampled_from([0, 0, 50]))
    def reopen(self, way: str, seconds: int) -> None:
        """End the process, let time pass, reopen: locks are free and their deliveries counted (B-102, B-177)."""
        self.bus.stop(way)
        self.clock.advance(seconds)
        self.bus.open()
        self.gaps_allowed |= way.endswith("crash")
        for number in self.numbers("ready", is_locked=True):
            self.release(self.records[number], counted=True)
        for number in self.numbers("deferred", is_locked=True):
            self.release(self.records[number], counted=False)
        self.activate()

    @precondition(lambda self: self.numbers("ready", is_locked=False))
    @rule()
    def take_everything(self) -> None:
        """All ready messages can be received, in order within each partition (B-120)."""
        messages = self.bus.take()
        numbers = [message.sequence_number for message in messages]
        assert sorted(numbers) == self.numbers("ready", is_locked=False)
        for partition in {number >> 48 for number in numbers}:
            own = [number for number in numbers if number >> 48 == partition]
            assert own == sorted(own)
        for message in messages:
            self.records[message.sequence_number].locked_message = message

    @invariant()
    def contents_are_the_model(self) -> None:
        """Peek shows the messages of the model, with state, count and body; the counts agree (B-291, B-389)."""
        shown = {m.sequence_number: (str(m), m.state, m.delivery_count) for m in self.bus.peek()}
        alive = {number: record for number, record in self.records.items() if record.state in STATES}
        assert shown == {n: (r.body, STATES[r.state], r.count) for n, r in alive.items()}
        dead = {
            m.sequence_number: (str(m), m.delivery_count, m.dead_letter_reason)
            for m in self.bus.peek("q", "deadletter")
        }
        buried = {number: record for number, record in self.records.items() if record.state == "dead"}
        assert dead == {number: (record.body, record.count, record.reason) for number, record in buried.items()}
        runtime = self.bus.runtime()
        assert runtime.total_message_count == len(alive) + len(buried)
        assert runtime.dead_letter_message_count == len(buried)
        assert runtime.scheduled_message_count == len(self.numbers("scheduled", is_locked=False))
        assert runtime.locked_message_count == len(self.numbers("ready", "deferred", is_locked=True))


class PlainDurableQueueMachine(DurableQueueMachine):
    """The same on a queue without partitioning."""

    partitioned = False


BUDGET = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDurablePartitionedQueue = pytest.mark.timeout(900)(DurableQueueMachine.TestCase)
TestDurablePartitionedQueue.settings = BUDGET
TestDurablePlainQueue = pytest.mark.timeout(900)(PlainDurableQueueMachine.TestCase)
TestDurablePlainQueue.settings = BUDGET
