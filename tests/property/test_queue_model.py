# SPDX-License-Identifier: Apache-2.0
"""A queue against a naive model of it: random sends, receives, settlements, expiries, peeks and deferrals.

The model is a dict from sequence number to record, written from docs/behaviour.md only.
A receive may return fewer messages than requested (B-135), so the model does not check the number;
`drained` checks that all ready messages are received.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import oxbus
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from oxbus.exceptions import MessageAlreadySettled, MessageLockLostError, MessageNotFoundError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK = timedelta(seconds=60)
MAX_DELIVERY_COUNT = 3
LOW_48_BITS = (1 << 48) - 1
Phase = Literal["ready", "overdue", "deferred", "scheduled", "dead", "gone"]


@dataclass
class Record:
    """The model's knowledge of one message."""

    body: str
    key: str | None
    enqueued_at: datetime
    expires_at: datetime | None = None
    due_at: datetime | None = None
    phase: Phase = "ready"
    count: int = 0
    token: object = None
    locked_until: datetime | None = None
    reason: str | None = None
    properties: dict[str, int] = field(default_factory=dict)


class Model:
    """A minimal queue: every message with its state and holder."""

    def __init__(self, *, dead_letter_expired: bool) -> None:
        self.now = START
        self.records: dict[int, Record] = {}
        self.dead_letter_expired = dead_letter_expired

    def locked(self, record: Record) -> bool:
        """Whether the message is locked."""
        return record.locked_until is not None

    def in_phase(self, *phases: Phase, locked: bool | None = None) -> dict[int, Record]:
        """Messages in one of the phases, by number."""
        return {
            number: record
            for number, record in sorted(self.records.items())
            if record.phase in phases and (locked is None or self.locked(record) is locked)
        }

    def lock(self, message: ServiceBusReceivedMessage) -> None:
        """Record that a receiver locked the message (B-151)."""
        record = self.records[message.sequence_number]
        record.token, record.locked_until = message.lock_token, self.now + LOCK

    def release(self, number: int, *, counted: bool) -> None:
        """Release a message; too many deliveries or expiry move it (B-178, B-252)."""
        record = self.records[number]
        record.token = record.locked_until = None
        record.count += counted
        if record.phase in ("ready", "deferred") and record.count >= MAX_DELIVERY_COUNT:
            self.dead_letter(number, "MaxDeliveryCountExceeded")
        self.expire(number)

    def dead_letter(self, number: int, reason: str | None) -> None:
        """Move a message to the dead-letter queue (B-111)."""
        record = self.records[number]
        record.phase, record.reason = "dead", reason
        record.token = record.locked_until = None

    def expire(self, number: int) -> None:
        """Record that a message expired; locked and deferred ones stay (B-252, B-255)."""
        record = self.records[number]
        over = record.expires_at is not None and record.expires_at <= self.now
        if record.phase == "ready" and over and not self.locked(record):
            record.phase = "overdue"

    def remove_overdue(self, number: int) -> None:
        """Drop or move a message that the queue has found to be overdue (B-253)."""
        if self.dead_letter_expired:
            self.dead_letter(number, "TTLExpiredException")
        else:
            self.records[number].phase = "gone"

    def move_clock(self, seconds: float) -> None:
        """Advance the time: locks (B-157) and messages expire."""
        self.now += timedelta(seconds=seconds)
        for number, record in self.records.items():
            if record.locked_until is not None and record.locked_until <= self.now:
                self.release(number, counted=record.phase != "deferred")
            self.expire(number)


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue and the model with the same calls."""

    partitioned = True
    dead_letter_expired = True
    held = Bundle("held")
    dead_held = Bundle("dead_held")
    settled = Bundle("settled")
    deferred = Bundle("deferred")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(dead_letter_expired=self.dead_letter_expired)
        self.clock = ManualClock(START)
        self.namespace = Namespace(clock=self.clock)
        self.admin = ServiceBusAdministrationClient(self.namespace)
        self.admin.create_queue(
            "q",
            enable_partitioning=self.partitioned,
            lock_duration=LOCK,
            max_delivery_count=MAX_DELIVERY_COUNT,
            dead_lettering_on_message_expiration=self.dead_letter_expired,
        )
        self.client = ServiceBusClient(self.namespace)
        self.sender = self.client.get_queue_sender("q")
        self.receivers = [self.client.get_queue_receiver("q"), self.client.get_queue_receiver("q", prefetch_count=3)]
        self.dead_letters = self.client.get_queue_receiver("q", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        self.counters: dict[int, int] = {}
        self.sent = 0

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()

    def note(self, number: int, record: Record) -> None:
        """Add a message to the model; its number must be the next one of its partition (B-105, B-106)."""
        partition_id = number >> 48
        if self.partitioned and record.key is not None:
            assert partition_id == oxbus.partition_id(record.key)
        if not self.partitioned:
            assert partition_id == 0
        self.counters[partition_id] = self.counters.get(partition_id, 0) + 1
        assert number & LOW_48_BITS == self.counters[partition_id]
        self.model.records[number] = record
        self.model.expire(number)

    def browse(self) -> dict[int, ServiceBusReceivedMessage]:
        """All messages that peek shows, by number, each once."""
        seen: dict[int, ServiceBusReceivedMessage] = {}
        with self.client.get_queue_receiver("q") as browser:
            while batch := browser.peek_messages(max_message_count=5):
                for message in batch:
                    assert message.sequence_number not in seen
                    seen[message.sequence_number] = message
        return seen

    def learn_numbers(self, expected: list[Record]) -> None:
        """Peek to find the numbers of sent messages, which are in order within each partition."""
        unknown = {number: message for number, message in self.browse().items() if number not in self.model.records}
        bodies = {record.body: record for record in expected}
        assert sorted(str(message) for message in unknown.values()) == sorted(bodies)
        for number, message in sorted(unknown.items()):
            assert message.enqueued_time_utc == self.model.now
            self.note(number, bodies[str(message)])

    def learn_removals(self) -> None:
        """Find the expired messages that the queue removed; it may do so late, but never delivers them (B-251)."""
        overdue = self.model.in_phase("overdue")
        if overdue:
            for number in overdue.keys() - self.browse().keys():
                self.model.remove_overdue(number)

    def next_body(self) -> str:
        """A unique body."""
        self.sent += 1
        return f"m{self.sent}"

    @initialize()
    def starts_empty(self) -> None:
        """A fresh queue shows nothing."""
        assert self.browse() == {}

    @rule(
        key=st.sampled_from([None, "a", "b", "c", "d"]),
        count=st.integers(1, 4),
        life=st.sampled_from([None, 30, 90]),
        as_list=st.booleans(),
    )
    def send(self, key: str | None, count: int, life: int | None, as_list: bool) -> None:
        """Send messages one by one or as one batch with one key (B-061, B-079)."""
        time_to_live = None if life is None else timedelta(seconds=life)
        records = [
            Record(
                self.next_body(),
                key,
                self.model.now,
                None if life is None else self.model.now + timedelta(seconds=life),
            )
            for _ in range(count)
        ]
        messages = [ServiceBusMessage(record.body, partition_key=key, time_to_live=time_to_live) for record in records]
        if as_list:
            self.sender.send_messages(messages)
        else:
            for message in messages:
                self.sender.send_messages(message)
        self.learn_numbers(records)

    @rule(key=st.sampled_from([None, "a", "b"]), delay=st.integers(1, 120))
    def schedule(self, key: str | None, delay: int) -> None:
        """Schedule a message (B-232)."""
        due_at = self.model.now + timedelta(seconds=delay)
        record = Record(self.next_body(), key, self.model.now, due_at=due_at, phase="scheduled")
        (number,) = self.sender.schedule_messages(ServiceBusMessage(record.body, partition_key=key), due_at)
        self.note(number, record)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a pending message, or fail to cancel another one (B-238)."""
        if not self.model.records:
            return
        number = data.draw(st.sampled_from(sorted(self.model.records)))
        record = self.model.records[number]
        if record.phase == "scheduled":
            self.sender.cancel_scheduled_messages(number)
            record.phase = "gone"
        else:
            with pytest.raises(MessageNotFoundError):
                self.sender.cancel_scheduled_messages(number)

    @rule(target=held, which=st.integers(0, 1), count=st.integers(1, 5))
    def receive(self, which: int, count: int) -> object:
        """Receive ready messages only, each partition in order, with the right counts (B-120, B-153, B-176)."""
        messages = self.receivers[which].receive_messages(max_message_count=count, max_wait_time=0)
        assert len(messages) <= count
        last: dict[int, int] = {}
        for message in messages:
            number = message.sequence_number
            record = self.model.records[number]
            assert record.phase == "ready"
            assert not self.model.locked(record)
            assert str(message) == record.body
            assert message.delivery_count == record.count
            assert message.enqueued_time_utc == record.enqueued_at
            assert message.locked_until_utc == self.model.now + LOCK
            assert last.get(number >> 48, -1) < number
            last[number >> 48] = number
            self.model.lock(message)
        return multiple(*messages)

    @rule(target=dead_held, count=st.integers(1, 5))
    def receive_dead_letters(self, count: int) -> object:
        """Receive from the dead-letter queue (B-261, B-265)."""
        messages = self.dead_letters.receive_messages(max_message_count=count, max_wait_time=0)
        self.learn_removals()
        for message in messages:
            record = self.model.records[message.sequence_number]
            assert record.phase == "dead"
            assert not self.model.locked(record)
            assert message.dead_letter_reason == record.reason
            assert message.delivery_count == record.count
            self.model.lock(message)
        return multiple(*messages)

    def holds(self, message: ServiceBusReceivedMessage) -> bool:
        """Whether the message's lock is still the current one."""
        record = self.model.records[message.sequence_number]
        return self.model.locked(record) and record.token == message.lock_token

    @rule(
        target=settled,
        message=consumes(held),
        verb=st.sampled_from(["complete", "abandon", "defer", "dead_letter"]),
        which=st.integers(0, 1),
    )
    def settle(self, message: ServiceBusReceivedMessage, verb: str, which: int) -> object:
        """Settle with any receiver of the queue; a lost lock is refused (B-155, B-158, B-162 to B-165)."""
        number = message.sequence_number
        call = getattr(self.receivers[which], f"{verb}_message")
        if not self.holds(message):
            with pytest.raises(MessageLockLostError):
                call(message)
            return multiple()
        call(message)
        record = self.model.records[number]
        if verb == "complete":
            record.phase, record.locked_until = "gone", None
        elif verb == "abandon":
            self.model.release(number, counted=record.phase != "deferred")
        elif verb == "defer":
            # A settlement defers it, whatever its delivery count (B-281).
            record.phase, record.token, record.locked_until = "deferred", None, None
        else:
            self.model.dead_letter(number, None)
        return message

    @rule(message=consumes(dead_held), verb=st.sampled_from(["complete", "abandon"]))
    def settle_dead_letter(self, message: ServiceBusReceivedMessage, verb: str) -> None:
        """Settle a dead letter; there is no limit to its deliveries (B-179)."""
        call = getattr(self.dead_letters, f"{verb}_message")
        if not self.holds(message):
            with pytest.raises(MessageLockLostError):
                call(message)
            return
        call(message)
        if verb == "complete":
            record = self.model.records[message.sequence_number]
            record.phase, record.locked_until = "gone", None
        else:
            self.model.release(message.sequence_number, counted=True)

    @rule(message=settled)
    def settle_again(self, message: ServiceBusReceivedMessage) -> None:
        """A message object is settled once (B-160)."""
        with pytest.raises(MessageAlreadySettled):
            self.receivers[0].complete_message(message)

    @rule(message=held)
    def renew(self, message: ServiceBusReceivedMessage) -> None:
        """Renew a lock, or expect lock lost (B-154, B-155)."""
        if self.holds(message):
            until = self.receivers[0].renew_message_lock(message)
            assert until == self.model.now + LOCK
            self.model.records[message.sequence_number].locked_until = until
        else:
            with pytest.raises(MessageLockLostError):
                self.receivers[0].renew_message_lock(message)

    @rule(target=held, data=st.data())
    def fetch_deferred(self, data: st.DataObject) -> object:
        """Fetch by number: a deferred message, which counts a delivery, or an error (B-276, B-278, B-281)."""
        if not self.model.records:
            return multiple()
        number = data.draw(st.sampled_from(sorted(self.model.records)))
        record = self.model.records[number]
        if record.phase != "deferred" or self.model.locked(record):
            with pytest.raises(MessageNotFoundError):
                self.receivers[0].receive_deferred_messages(number)
            return multiple()
        if record.expires_at is not None and record.expires_at <= self.model.now:
            with pytest.raises(MessageNotFoundError):
                self.receivers[0].receive_deferred_messages(number)
            self.model.remove_overdue(number)  # B-255: the failed fetch removes it
            return multiple()
        (message,) = self.receivers[0].receive_deferred_messages(number)
        record.count += 1
        assert message.delivery_count == record.count
        assert message.state == ServiceBusMessageState.DEFERRED
        self.model.lock(message)
        return message

    @rule(seconds=st.sampled_from([0.5, 10, 29, 31, 61, 200]))
    def advance(self, seconds: float) -> None:
        """Advance the time; due scheduled messages get new numbers in order of their times (B-112, B-235)."""
        self.clock.advance(seconds)
        self.model.move_clock(seconds)
        due = {
            number: record
            for number, record in self.model.in_phase("scheduled").items()
            if record.due_at is not None and record.due_at <= self.model.now
        }
        for record in due.values():
            record.phase = "gone"
        shown = {number: message for number, message in self.browse().items() if number not in self.model.records}
        by_body = {record.body: (number, record) for number, record in due.items()}
        assert sorted(str(message) for message in shown.values()) == sorted(by_body)
        last_due: dict[int, datetime] = {}
        for number, message in sorted(shown.items()):
            old_number, record = by_body[str(message)]
            assert number >> 48 == old_number >> 48
            assert record.due_at is not None
            assert message.enqueued_time_utc is not None
            assert record.due_at <= message.enqueued_time_utc <= self.model.now
            assert last_due.get(number >> 48, record.due_at) <= record.due_at
            last_due[number >> 48] = record.due_at
            self.note(number, Record(record.body, record.key, message.enqueued_time_utc))

    @rule()
    def drained(self) -> None:
        """All ready messages can be received, and again after abandon (R-01, R-21)."""
        taken: list[ServiceBusReceivedMessage] = []
        empty = 0
        while empty < 3:
            batch = [
                message
                for receiver in self.receivers
                for message in receiver.receive_messages(max_message_count=10, max_wait_time=0)
            ]
            taken += batch
            empty = 0 if batch else empty + 1
        numbers = [message.sequence_number for message in taken]
        assert sorted(numbers) == list(self.model.in_phase("ready", locked=False))
        for message in taken:
            self.model.lock(message)
            self.receivers[0].abandon_message(message)
            self.model.release(message.sequence_number, counted=True)

    @invariant()
    def peek_shows_the_model(self) -> None:
        """Peek shows exactly the messages of the model, with state and count (B-180, B-290 to B-292)."""
        states = {
            "ready": ServiceBusMessageState.ACTIVE,
            "overdue": ServiceBusMessageState.ACTIVE,
            "deferred": ServiceBusMessageState.DEFERRED,
            "scheduled": ServiceBusMessageState.SCHEDULED,
        }
        self.learn_removals()
        shown = {number: (m.state, m.delivery_count) for number, m in self.browse().items()}
        expected = self.model.in_phase("ready", "overdue", "deferred", "scheduled")
        assert shown == {number: (states[record.phase], record.count) for number, record in expected.items()}

    @invariant()
    def counts_tell_the_model(self) -> None:
        """The runtime counts match the model (B-389 to B-391, B-393, R-20)."""
        counts = self.admin.get_queue_runtime_properties("q")
        self.learn_removals()
        model = self.model
        assert counts.total_message_count == len(model.in_phase("ready", "overdue", "deferred", "scheduled", "dead"))
        assert counts.dead_letter_message_count == len(model.in_phase("dead"))
        assert counts.scheduled_message_count == len(model.in_phase("scheduled"))
        assert counts.deferred_message_count == len(model.in_phase("deferred"))
        assert counts.locked_message_count == len(model.in_phase("ready", "deferred", locked=True))


class PlainQueueMachine(QueueMachine):
    """The same on a plain queue that drops expired messages."""

    partitioned = False
    dead_letter_expired = False


BUDGET = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPartitionedQueue = pytest.mark.timeout(600)(QueueMachine.TestCase)
TestPartitionedQueue.settings = BUDGET
TestPlainQueue = pytest.mark.timeout(600)(PlainQueueMachine.TestCase)
TestPlainQueue.settings = BUDGET
