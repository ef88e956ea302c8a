# SPDX-License-Identifier: Apache-2.0
"""Transactions against a naive model: a list of operations, applied at the commit or never (B-306 to B-330).

The model has every message with its state. Receives may return fewer messages than requested (B-135), so it takes
over the received messages and checks that they were ready.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import oxbus
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessageAlreadySettled,
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, Transaction

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK_SECONDS = 50.0
TRANSACTION_SECONDS = 120.0
MESSAGES_MAX = 100
VERBS = ("complete", "abandon", "defer", "dead_letter")


@dataclass
class Entry:
    """A message with its state, holder and lock end."""

    body: str
    key: str
    state: str = "ready"
    count: int = 0
    locked_message: ServiceBusReceivedMessage | None = None
    until: float = 0.0


@dataclass
class Work:
    """A transaction: its operations and start."""

    txn: Transaction
    began: float | None = None
    key: str | None = None
    partition: int | None = None
    sends: list[tuple[str, str]] = field(default_factory=list)
    settles: list[tuple[ServiceBusReceivedMessage, str]] = field(default_factory=list)
    is_over: bool = False


class TransactionMachine(RuleBasedStateMachine):
    """Two concurrent transactions on one queue, and calls outside of them."""

    partitioned = True
    detects_duplicates = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.namespace = Namespace(clock=self.clock, partitions=4)
        self.admin = ServiceBusAdministrationClient(self.namespace)
        self.admin.create_queue(
            "q",
            enable_partitioning=self.partitioned,
            requires_duplicate_detection=self.detects_duplicates,
            duplicate_detection_history_time_window=timedelta(days=1),
            lock_duration=timedelta(seconds=LOCK_SECONDS),
            max_delivery_count=1000,
        )
        self.client = ServiceBusClient(self.namespace)
        self.sender = self.client.get_queue_sender("q")
        self.receiver = self.client.get_queue_receiver("q")
        self.entries: dict[str, Entry] = {}
        self.now = 0.0
        self.works = [Work(self.client.transaction()) for _ in range(2)]
        self.sent = 0
        self.known: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()

    def partition_of(self, key: str) -> int:
        """The partition of a key."""
        return oxbus.partition_id(key, 4) if self.partitioned else 0

    def message(self, body: str, key: str) -> ServiceBusMessage:
        """A message whose id is its body."""
        return ServiceBusMessage(body, message_id=body, partition_key=key)

    def holds(self, locked: ServiceBusReceivedMessage) -> bool:
        """Whether the lock of a received message is valid."""
        entry = self.entries[str(locked)]
        return entry.locked_message is locked and entry.until > self.now

    def add(self, body: str, key: str) -> None:
        """Add a message, unless it is a duplicate (B-219)."""
        identity = (body, key if self.partitioned else "")
        if self.detects_duplicates and identity in self.known:
            return
        self.known.add(identity)
        self.entries[body] = Entry(body, key)

    def apply(self, locked: ServiceBusReceivedMessage, verb: str) -> None:
        """Apply a settlement."""
        entry = self.entries[str(locked)]
        states = {"complete": "gone", "abandon": "ready", "defer": "deferred", "dead_letter": "dead"}
        entry.state, entry.locked_message = states[verb], None
        entry.count += verb == "abandon"

    def refusal(self, work: Work, partition: int) -> type[Exception] | None:
        """The error of the next operation of a transaction, or None."""
        if work.is_over:
            return InvalidOperationError
        if work.began is not None and self.now >= work.began + TRANSACTION_SECONDS:
            work.is_over = True
            return OperationTimeoutError
        if work.partition is not None and work.partition != partition:
            return InvalidOperationError
        return None

    def attempt(self, work: Work, partition: int, refusal: type[Exception] | None, call: Callable[[], object]) -> bool:
        """Make a call in a transaction, and return whether it was accepted."""
        if refusal is not None:
            with pytest.raises(refusal):
                call()
            return False
        call()
        if work.began is None:
            work.began, work.partition = self.now, partition
        return True

    @rule(which=st.integers(0, 1), key=st.sampled_from("abcdef"), count=st.sampled_from([1, 1, 2, 30]))
    def send(self, which: int, key: str, count: int) -> None:
        """Send in a transaction: one key, a hundred messages, two minutes (B-309, B-318, B-319)."""
        work = self.works[which]
        bodies = [f"m{self.sent + number}" for number in range(count)]
        self.sent += count
        partition = self.partition_of(key)
        refusal = self.refusal(work, partition)
        if refusal is None and len(work.sends) + count > MESSAGES_MAX:
            refusal = ServiceBusQuotaExceededError
        if refusal is None and self.partitioned and work.key not in (None, key):
            refusal = InvalidOperationError
        messages = [self.message(body, key) for body in bodies]
        if self.attempt(work, partition, refusal, lambda: self.sender.send_messages(messages, transaction=work.txn)):
            work.key = key
            work.sends += [(body, key) for body in bodies]

    @rule(which=st.integers(0, 1), data=st.data())
    def send_copy(self, which: int, data: st.DataObject) -> None:
        """Send an id again in a transaction; it is a duplicate only if the first was committed before (B-230)."""
        work = self.works[which]
        pending = [sent for each in self.works for sent in each.sends]
        choices = pending + [(entry.body, entry.key) for entry in self.entries.values()]
        if not self.detects_duplicates or not choices:
            return
        body, key = data.draw(st.sampled_from(choices))
        partition = self.partition_of(key)
        refusal = self.refusal(work, partition)
        if refusal is None and len(work.sends) + 1 > MESSAGES_MAX:
            refusal = ServiceBusQuotaExceededError
        if refusal is None and self.partitioned and work.key not in (None, key):
            refusal = InvalidOperationError
        copy = self.message(body, key)
        if self.attempt(work, partition, refusal, lambda: self.sender.send_messages(copy, transaction=work.txn)):
            work.key = key
            work.sends.append((body, key))

    @rule(which=st.integers(0, 1), verb=st.sampled_from(VERBS), data=st.data())
    def settle(self, which: int, verb: str, data: st.DataObject) -> None:
        """Settle in a transaction: a valid lock, one partition, once (B-155, B-160, B-310)."""
        locked = [entry.locked_message for entry in self.entries.values() if entry.locked_message is not None]
        if not locked:
            return
        work = self.works[which]
        message = data.draw(st.sampled_from(locked))
        partition = self.partition_of(self.entries[str(message)].key)
        call = getattr(self.receiver, f"{verb}_message")
        if not self.holds(message):
            with pytest.raises(MessageLockLostError):
                call(message, transaction=work.txn)
            return
        refusal = self.refusal(work, partition)
        if refusal is None and any(known is message for known, _ in work.settles):
            refusal = MessageAlreadySettled
        if self.attempt(work, partition, refusal, lambda: call(message, transaction=work.txn)):
            work.settles.append((message, verb))

    @rule(which=st.integers(0, 1))
    def commit(self, which: int) -> None:
        """A commit applies everything, or nothing after a lost lock or a timeout (B-315, B-318)."""
        work = self.works[which]
        if work.is_over:
            with pytest.raises(InvalidOperationError):
                work.txn.commit()
        elif work.began is not None and self.now >= work.began + TRANSACTION_SECONDS:
            with pytest.raises(OperationTimeoutError):
                work.txn.commit()
        elif not all(self.holds(locked) for locked, _ in work.settles):
            with pytest.raises(MessageLockLostError):
                work.txn.commit()
        else:
            work.txn.commit()
            for body, key in work.sends:
                self.add(body, key)
            for locked, verb in work.settles:
                self.apply(locked, verb)
                assert locked.lock_token is None
        self.works[which] = Work(self.client.transaction())

    @rule(which=st.integers(0, 1))
    def roll_back(self, which: int) -> None:
        """A rollback changes nothing (B-316)."""
        work = self.works[which]
        if work.is_over:
            with pytest.raises(InvalidOperationError):
                work.txn.rollback()
        else:
            work.txn.rollback()
        self.works[which] = Work(self.client.transaction())

    @rule(key=st.sampled_from("abcdef"))
    def send_beside(self, key: str) -> None:
        """Send without a transaction."""
        body = f"m{self.sent}"
        self.sent += 1
        self.sender.send_messages(self.message(body, key))
        self.add(body, key)

    @rule(count=st.integers(1, 8))
    def receive(self, count: int) -> None:
        """Receive committed messages only, and no locked ones."""
        for message in self.receiver.receive_messages(count, max_wait_time=0):
            entry = self.entries[str(message)]
            assert entry.state == "ready"
            assert entry.locked_message is None
            assert message.delivery_count == entry.count
            entry.locked_message, entry.until = message, self.now + LOCK_SECONDS

    @rule(verb=st.sampled_from(VERBS), data=st.data())
    def settle_beside(self, verb: str, data: st.DataObject) -> None:
        """Settle without a transaction; a transaction that settles it too fails to commit (B-317)."""
        locked = [entry.locked_message for entry in self.entries.values() if entry.locked_message is not None]
        if locked:
            message = data.draw(st.sampled_from(locked))
            getattr(self.receiver, f"{verb}_message")(message)
            self.apply(message, verb)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """A renewal takes effect at once, whatever happens to transactions."""
        locked = [entry.locked_message for entry in self.entries.values() if entry.locked_message is not None]
        if locked:
            message = data.draw(st.sampled_from(locked))
            self.receiver.renew_message_lock(message)
            self.entries[str(message)].until = self.now + LOCK_SECONDS

    @rule(seconds=st.sampled_from([1.0, 20.0, 49.0, 70.0]))
    def advance(self, seconds: float) -> None:
        """Advance the time: locks and transactions expire."""
        self.clock.advance(seconds)
        self.now += seconds
        for entry in self.entries.values():
            if entry.locked_message is not None and entry.until <= self.now:
                entry.locked_message = None
                entry.count += 1

    @precondition(lambda self: any(entry.state == "ready" for entry in self.entries.values()))
    @rule()
    def drained(self) -> None:
        """All ready messages can be received."""
        expected = {
            body for body, entry in self.entries.items() if entry.state == "ready" and entry.locked_message is None
        }
        taken: list[ServiceBusReceivedMessage] = []
        empty = 0
        while empty < 3:
            messages = self.receiver.receive_messages(50, max_wait_time=0)
            empty = 0 if messages else empty + 1
            taken += messages
        assert sorted(map(str, taken)) == sorted(expected)
        for message in taken:
            self.receiver.abandon_message(message)
            self.entries[str(message)].count += 1

    @invariant()
    def peek_and_counts_tell_the_model(self) -> None:
        """Peek and counts show committed changes only (B-315)."""
        shown: dict[str, str] = {}
        for state, sub_queue in ((None, None), ("dead", "deadletter")):
            with self.client.get_queue_receiver("q", sub_queue=sub_queue) as browser:
                while batch := browser.peek_messages(250):
                    for message in batch:
                        assert str(message) not in shown
                        shown[str(message)] = state or ("deferred" if message.state.name == "DEFERRED" else "ready")
        assert shown == {body: entry.state for body, entry in self.entries.items() if entry.state != "gone"}
        counts = self.admin.get_queue_runtime_properties("q")
        assert counts.total_message_count == len(shown)
        assert counts.locked_message_count == sum(entry.locked_message is not None for entry in self.entries.values())
        assert counts.deferred_message_count == sum(state == "deferred" for state in shown.values())


class PlainTransactionMachine(TransactionMachine):
    """The same on a plain queue with duplicate detection."""

    partitioned = False
    detects_duplicates = True


class DetectingTransactionMachine(TransactionMachine):
    """The same on a partitioned queue with duplicate detection."""

    detects_duplicates = True


BUDGET = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPartitionedTransactions = pytest.mark.timeout(600)(TransactionMachine.TestCase)
TestPartitionedTransactions.settings = BUDGET
TestPlainTransactions = pytest.mark.timeout(600)(PlainTransactionMachine.TestCase)
TestPlainTransactions.settings = BUDGET
TestDetectingTransactions = pytest.mark.timeout(600)(DetectingTransactionMachine.TestCase)
TestDetectingTransactions.settings = BUDGET
