# SPDX-License-Identifier: Apache-2.0
"""Invariants of two consumers and a competing receiver on one queue.

- The messages of a number never grow, and do not change while the reservation is live.
- A message is in at most one live reservation, and no receiver gets it while that is live.
- Completed messages are removed; all others are in the queue.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import MessageLockLostError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock
from reserving import Consumer, numbers_of

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK_SECONDS = 50.0
RESERVED_SECONDS = 40.0
NAMES = ("one", "other")
LIVE_MAX = 2
consumers = st.sampled_from(NAMES)


@dataclass
class KnownReservation:
    """A reservation as its consumer knows it."""

    plan: dict[str, Any]
    content: set[int]
    until: float


@dataclass
class Program:
    """A program that acquired a consumer, with its reservations."""

    consumer: Consumer
    done: int = 0
    reservations: dict[int, KnownReservation] = field(default_factory=dict)


class ReservationMachine(RuleBasedStateMachine):
    """The actions of two consumers and a competing receiver."""

    durable: ClassVar[bool] = False
    partitioned: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.now = 0.0
        self.home = Path(tempfile.mkdtemp()) if self.durable else None
        self.opens = 0
        self.open()
        ServiceBusAdministrationClient(self.namespace).create_queue(
            "q",
            enable_partitioning=self.partitioned,
            lock_duration=timedelta(seconds=LOCK_SECONDS),
            max_delivery_count=1000,
        )
        self.connect()
        self.programs = {name: Program(Consumer(self.namespace, "q", name)) for name in NAMES}
        self.locked: dict[int, tuple[ServiceBusReceivedMessage, float]] = {}
        self.present: set[int] = set()
        self.removed: set[int] = set()

    def open(self) -> None:
        """Open the namespace, or reopen its directory."""
        path = None if self.home is None else self.home / str(self.opens)
        self.namespace = Namespace(path, clock=self.clock, partitions=4)

    def connect(self) -> None:
        """Get handles of the namespace."""
        self.client = ServiceBusClient(self.namespace)
        self.sender = self.client.get_queue_sender("q")
        self.receiver = self.client.get_queue_receiver("q")

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()
        if self.home is not None:
            shutil.rmtree(self.home)

    def peeked(self) -> set[int]:
        """The numbers of all messages."""
        found: set[int] = set()
        with self.client.get_queue_receiver("q") as browser:
            while batch := browser.peek_messages(max_message_count=250):
                found |= {message.sequence_number for message in batch}
        return found

    def live(self) -> list[set[int]]:
        """The messages of each live reservation."""
        reservations = (it for program in self.programs.values() for it in program.reservations.values())
        return [it.content for it in reservations if it.until > self.now]

    def remove(self, numbers: set[int]) -> None:
        """Record removed messages."""
        assert numbers <= self.present
        self.present -= numbers
        self.removed |= numbers

    def note(self, program: Program, n: int, plan: dict[str, Any]) -> None:
        """Record the messages of a number, and check the invariants."""
        content = set(numbers_of(plan))
        assert len(content) == plan["messages"]
        before = program.reservations.get(n)
        if before is not None:
            assert content <= before.content, "the messages of a number never grow"
            if before.until > self.now:
                assert content == before.content, "a live reservation does not change"
                assert plan["id"] == before.plan["id"]
        others = [one for one in self.live() if before is None or one is not before.content]
        assert all(content.isdisjoint(one) for one in others), "a message is in at most one live reservation"
        holders = {number for number, (_, until) in self.locked.items() if until > self.now}
        assert content.isdisjoint(holders), "messages of the competitor are not reserved"
        assert content <= self.present
        program.reservations[n] = KnownReservation(plan, content, self.now + RESERVED_SECONDS)

    @rule(count=st.integers(1, 12))
    def send(self, count: int) -> None:
        """Send messages."""
        for _ in range(count):
            self.sender.send_messages(ServiceBusMessage(b"x"))
        self.present = self.peeked()

    @rule(name=consumers, limit=st.integers(1, 10))
    def reserve(self, name: str, limit: int) -> None:
        """Reserve the next number."""
        program = self.programs[name]
        if len(program.reservations) == LIVE_MAX:
            return
        n = max(program.reservations, default=program.done) + 1
        plan = program.consumer.reserve(n, limit, lock=RESERVED_SECONDS)
        assert plan["messages"] <= limit
        if plan["messages"]:
            assert plan["missing"] == 0
            self.note(program, n, plan)
        else:
            holders = {number for number, (_, until) in self.locked.items() if until > self.now}
            assert set().union(holders, *self.live()) >= self.present, "no message is available"

    @rule(name=consumers, again=st.booleans())
    def reserve_again(self, name: str, again: bool) -> None:
        """Reserve or plan an existing number."""
        program = self.programs[name]
        for n in list(program.reservations):
            consumer = program.consumer
            plan = consumer.plan(n, RESERVED_SECONDS) if again else consumer.reserve(n, 99, lock=RESERVED_SECONDS)
            self.note(program, n, plan)

    @rule(name=consumers)
    def renew(self, name: str) -> None:
        """Renew the reservations."""
        program = self.programs[name]
        live = [reservation for reservation in program.reservations.values() if reservation.until > self.now]
        if program.reservations and not live:
            with pytest.raises(MessageLockLostError):
                program.consumer.renew(RESERVED_SECONDS)
            return
        program.consumer.renew(RESERVED_SECONDS)
        for reservation in live:
            reservation.until = self.now + RESERVED_SECONDS

    @rule(name=consumers)
    def restart(self, name: str) -> None:
        """Another program acquires the consumer."""
        program = self.programs[name]
        program.consumer = Consumer(self.namespace, "q", name)
        assert program.consumer.done == program.done

    @rule(name=consumers, data=st.data())
    def complete(self, name: str, data: st.DataObject) -> None:
        """Complete up to a number."""
        program = self.programs[name]
        if not program.reservations:
            return
        n = data.draw(st.sampled_from(sorted(program.reservations)))
        ended = [reservation for number, reservation in program.reservations.items() if number <= n]
        contents: set[int] = set().union(*(reservation.content for reservation in ended))
        completed, late = program.consumer.complete(n)
        left = self.peeked()
        done = contents & self.present - left
        assert (completed, completed + late) == (len(done), sum(len(reservation.content) for reservation in ended))
        for reservation in ended:
            assert reservation.until <= self.now or reservation.content <= done, (
                "all messages of a live reservation are completed"
            )
        holders = {number for number, (_, until) in self.locked.items() if until > self.now}
        program.reservations = {
            number: reservation for number, reservation in program.reservations.items() if number > n
        }
        assert contents & left <= set().union(holders, *self.live()), "the others are held elsewhere"
        self.remove(done)
        program.done = n
        assert program.consumer.complete(n) == (0, 0)

    @rule(name=consumers, data=st.data(), outcome=st.sampled_from(["complete", "abandon"]))
    def settle(self, name: str, data: st.DataObject, outcome: str) -> None:
        """Settle single messages of a live reservation."""
        program = self.programs[name]
        for reservation in program.reservations.values():
            if reservation.until <= self.now or not reservation.content:
                continue
            some = data.draw(st.lists(st.sampled_from(sorted(reservation.content)), max_size=3, unique=True))
            assert program.consumer.settle(reservation.plan, some, outcome) == len(some)
            reservation.content -= set(some)
            if outcome == "complete":
                self.remove(set(some))

    @rule(name=consumers)
    def cancel(self, name: str) -> None:
        """Cancel all reservations of a consumer."""
        program = self.programs[name]
        live = [reservation for reservation in program.reservations.values() if reservation.until > self.now]
        released = program.consumer.handle.cancel_reservation(name)
        assert released == sum(len(reservation.content) for reservation in live)
        program.reservations.clear()

    @rule(count=st.integers(1, 8))
    def compete(self, count: int) -> None:
        """Receive with the competing receiver."""
        for message in self.receiver.receive_messages(max_message_count=count, max_wait_time=0):
            number = message.sequence_number
            assert not any(number in one for one in self.live()), "reserved messages are not delivered"
            assert number in self.present
            self.locked[number] = (message, self.now + LOCK_SECONDS)

    @rule(completes=st.booleans())
    @precondition(lambda self: self.locked)
    def settle_competing(self, completes: bool) -> None:
        """Complete or abandon all messages of the competitor."""
        for number, (message, until) in self.locked.items():
            if until <= self.now:
                continue
            if completes:
                self.receiver.complete_message(message)
                self.remove({number})
            else:
                self.receiver.abandon_message(message)
        self.locked.clear()

    @rule(seconds=st.sampled_from([1.0, 15.0, 45.0]))
    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self.clock.advance(seconds)
        self.now += seconds

    @rule(crashes=st.booleans())
    @precondition(lambda self: self.durable)
    def reopen(self, crashes: bool) -> None:
        """Close or crash the namespace and reopen it; the programs continue."""
        if self.home is None:
            return
        path = self.home / str(self.opens)
        self.opens += 1
        if crashes:
            shutil.copytree(path, self.home / str(self.opens))
            self.namespace.close()
            shutil.rmtree(path)
        else:
            self.namespace.close()
            path.rename(self.home / str(self.opens))
        self.open()
        self.connect()
        self.locked.clear()
        for name, program in self.programs.items():
            program.consumer.handle = self.namespace._reservations("q")
            found = {info["n"]: info for info in program.consumer.handle.reservations() if info["consumer"] == name}
            assert found.keys() == program.reservations.keys()
            for n, reservation in program.reservations.items():
                is_live = found[n]["state"] == "live"
                # An expired reservation whose expiry was not written yet may be live again with its remaining messages.
                assert is_live or reservation.until <= self.now
                if is_live and reservation.until <= self.now:
                    self.note(program, n, program.consumer.plan(n, RESERVED_SECONDS))
                elif is_live:
                    reservation.until = self.now + RESERVED_SECONDS

    @invariant()
    def nothing_is_lost(self) -> None:
        """Completed messages are removed, and all others are in the queue."""
        assert self.peeked() == self.present


def run(machine: type[ReservationMachine], examples: int) -> None:
    """Let a machine run."""
    from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415 -- used here only

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40, suppress_health_check=checks)
    )


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "plain"])
def test_in_memory(partitioned: bool) -> None:
    """Consumers, restarts, expiry and a competitor."""
    run(type("Machine", (ReservationMachine,), {"partitioned": partitioned}), 60)


def test_in_a_directory() -> None:
    """Consumers, restarts, expiry and a competitor, with closes and crashes."""
    run(type("Machine", (ReservationMachine,), {"durable": True}), 40)
