# SPDX-License-Identifier: Apache-2.0
"""Two consumers and competing receivers on a queue with sessions, against a naive model.

- A session has at most one holder: a receiver or a live reservation.
- A new reservation has the next messages of free sessions, in order; only its limits cut a run.
- The messages of a number never grow, and do not change while the reservation is live.
- Completed messages are removed, all others are in the queue or its dead letters, with the counted deliveries.
- States of sessions change together with the settlement of a message.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import oxbus
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from oxbus import NEXT_AVAILABLE_SESSION, Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import MessageLockLostError, OperationTimeoutError, SessionCannotBeLockedError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock
from reserving import Consumer, numbers_of

# The model is in its own directory, so that mypy finds it by its short names too.
sys.path.insert(0, str(Path(__file__).with_name("model")))

from model_session_reservations import Hold, Message, Model, Reservation

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK_SECONDS = 50.0
RESERVED_SECONDS = 40.0
NAMES = ("one", "other")
SESSIONS = ("", "a", "b", "c", "d")
STATES = (None, b"", b"x", b"a longer one")
RESERVATIONS_MAX = 2
COMPETITORS_MAX = 2
ENOUGH = 1000
SIZES = (1, 300, 1 << 30)
consumers = st.sampled_from(NAMES)
sessions = st.sampled_from(SESSIONS)
outcomes = st.sampled_from(["complete", "abandon", "dead_letter"])


@dataclass
class Program:
    """A program that acquired a consumer, with its reservations."""

    consumer: Consumer
    acquired: int = 1
    done: int = 0
    reservations: dict[int, Reservation] = field(default_factory=dict)


@dataclass
class Competitor:
    """A receiver that accepted a session, and the messages that it has locked."""

    receiver: ServiceBusReceiver
    session: str
    hold: Hold
    messages: list[ServiceBusReceivedMessage] = field(default_factory=list)


class SessionReservationMachine(RuleBasedStateMachine):
    """Drives a queue and the model with the same calls."""

    partitioned: ClassVar[bool] = True
    max_delivery_count: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.model = Model(self.max_delivery_count)
        self.open()
        ServiceBusAdministrationClient(self.namespace).create_queue(
            "q",
            requires_session=True,
            enable_partitioning=self.partitioned,
            lock_duration=timedelta(seconds=LOCK_SECONDS),
            max_delivery_count=self.max_delivery_count,
        )
        self.programs = {name: Program(Consumer(self.namespace, "q", name)) for name in NAMES}
        self.competitors: list[Competitor] = []
        self.upto = self.programs["one"].consumer.handle.ends()

    def open(self, path: Path | None = None) -> None:
        """Open a namespace."""
        # A crash here is not a loss of power, so nothing is synced.
        self.namespace = Namespace(path, clock=self.clock, partitions=4, durability=None if path is None else "os")
        self.client = ServiceBusClient(self.namespace)
        self.sender = self.client.get_queue_sender("q")

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()

    def peeked(self, sub_queue: str | None = None) -> dict[int, ServiceBusReceivedMessage]:
        """All messages that peek shows, by number."""
        found: dict[int, ServiceBusReceivedMessage] = {}
        with self.client.get_queue_receiver("q", sub_queue=sub_queue) as browser:
            while batch := browser.peek_messages(max_message_count=250):
                found |= {message.sequence_number: message for message in batch}
        return found

    def is_live(self, reservation: Reservation) -> bool:
        """True if a reservation has its messages."""
        return reservation.hold in self.model.holds

    def program(self, name: str) -> tuple[str, Program]:
        """A program with reservations: that with this name if it has any, else the other."""
        chosen = name if self.programs[name].reservations else next(it for it in NAMES if it != name)
        return chosen, self.programs[chosen]

    def live(self) -> list[tuple[Program, Reservation]]:
        """All live reservations."""
        found = [(program, it) for program in self.programs.values() for it in program.reservations.values()]
        return [(program, it) for program, it in found if self.is_live(it)]

    def free(self, reservation: Reservation, *, counted: bool) -> None:
        """Free what a live reservation holds."""
        if reservation.hold is not None and self.is_live(reservation):
            self.model.end(reservation.hold, counted=counted)

    @initialize(counts=st.tuples(*[st.integers(2, 6)] * len(SESSIONS)))
    def begin(self, counts: tuple[int, ...]) -> None:
        """Begin with messages: without them, most steps do nothing."""
        self.send_to(counts)

    @rule(counts=st.tuples(*[st.integers(0, 2)] * len(SESSIONS)), marks=st.booleans())
    def send(self, counts: tuple[int, ...], marks: bool) -> None:
        """Send more messages; perhaps remember the end before them, as a bound of later reservations."""
        if marks:
            self.upto = self.programs["one"].consumer.handle.ends()
        self.send_to(counts)

    def send_to(self, counts: tuple[int, ...]) -> None:
        """Send messages to each session in turn."""
        chosen = [session for step in range(6) for session, count in zip(SESSIONS, counts, strict=True) if count > step]
        for session in chosen:
            self.sender.send_messages(ServiceBusMessage(b"x", session_id=session))
        new = {number: it for number, it in self.peeked().items() if number not in self.model.messages}
        assert sorted(chosen) == sorted(str(it.session_id) for it in new.values())
        self.model.messages |= {number: Message(str(it.session_id)) for number, it in new.items()}

    @precondition(lambda self: any(len(it.reservations) < RESERVATIONS_MAX for it in self.programs.values()))
    @rule(
        name=consumers,
        limit=st.sampled_from([2, 3, 5, 8, ENOUGH]),
        most=st.sampled_from([None, None, 1, 2]),
        size=st.sampled_from(SIZES),
        is_bounded=st.booleans(),
    )
    def reserve(self, name: str, limit: int, most: int | None, size: int, is_bounded: bool) -> None:
        """Reserve the next number: the next messages of free sessions, as many as the limits allow."""
        if len(self.programs[name].reservations) == RESERVATIONS_MAX:
            name = next(it for it in NAMES if it != name)
        program = self.programs[name]
        n = max(program.reservations, default=program.done) + 1
        upto = self.upto if is_bounded else None
        available = self.model.available(upto)
        plan = program.consumer.reserve(n, limit, size=size, lock=RESERVED_SECONDS, upto=upto, sessions=most)
        numbers = numbers_of(plan)
        content = set(numbers)
        assert len(numbers) == len(content) == plan["messages"] <= limit
        assert plan["missing"] == 0
        if not content:
            assert not available, "a session was available"
            return
        held = self.model.sessions_of(content)
        assert held <= available.keys(), "sessions that others hold are left out"
        assert most is None or len(held) <= most
        assert size > 1 or len(content) == 1
        cut = []
        for session in held:
            run = [number for number in numbers if self.model.messages[number].session == session]
            whole = available[session]
            assert run == whole[: len(run)], "a run begins with the next message, in order"
            cut += [session] if len(run) < len(whole) else []
        assert len(cut) <= 1, "only the last run is cut"
        if size == SIZES[-1] and len(content) < limit:
            assert not cut, "the limits cut a run"
            assert held == available.keys() or len(held) == most, "all sessions within the limits"
        hold = self.model.take(self.model.now + RESERVED_SECONDS, content, held)
        program.reservations[n] = Reservation(plan["id"], content, program.acquired, initial=len(content), hold=hold)
        assert plan["attempt"] == 1

    @precondition(lambda self: any(it.reservations for it in self.programs.values()))
    @rule(name=consumers, again=st.booleans())
    def resume(self, name: str, again: bool) -> None:
        """Plan or reserve existing numbers."""
        _, program = self.program(name)
        for n in list(program.reservations):
            self.resume_one(program, n, again=again)

    def resume_one(self, program: Program, n: int, *, again: bool) -> None:
        """A live one is unchanged; an expired one gets all that no one has taken."""
        consumer, reservation = program.consumer, program.reservations[n]
        plan = consumer.reserve(n, 1, lock=RESERVED_SECONDS) if again else consumer.plan(n, RESERVED_SECONDS)
        content = set(numbers_of(plan))
        assert content <= reservation.content, "the messages of a number never grow"
        until = self.model.now + RESERVED_SECONDS
        if reservation.hold is not None and self.is_live(reservation):
            assert content == reservation.content, "a live reservation does not change"
            reservation.hold.until = max(until, reservation.hold.until)
        else:
            assert content == self.model.left_for(reservation)
            reservation.content = content
            reservation.hold = self.model.take(until, content, self.model.sessions_of(content))
        assert plan["id"] == reservation.id
        assert plan["messages"] == len(content)
        assert plan["missing"] == reservation.initial - reservation.settled - len(content)
        assert plan["attempt"] == program.acquired - reservation.created + 1

    @rule(name=consumers, restarts=st.booleans())
    def go_on(self, name: str, restarts: bool) -> None:
        """Renew the reservations of a consumer, or let another program acquire it."""
        program = self.programs[name]
        if restarts:
            program.consumer = Consumer(self.namespace, "q", name)
            program.acquired += 1
            assert (program.consumer.epoch, program.consumer.done) == (program.acquired, program.done)
            return
        live = [it.hold for it in program.reservations.values() if it.hold is not None and self.is_live(it)]
        if program.reservations and not live:
            with pytest.raises(MessageLockLostError):
                program.consumer.renew(RESERVED_SECONDS)
            return
        program.consumer.renew(RESERVED_SECONDS)
        for hold in live:
            hold.until = self.model.now + RESERVED_SECONDS

    @precondition(lambda self: any(it.reservations for it in self.programs.values()))
    @rule(name=consumers, data=st.data())
    def complete(self, name: str, data: st.DataObject) -> None:
        """Complete up to a number: all that is live, and what no one took of those that expired."""
        _, program = self.program(name)
        n = data.draw(st.sampled_from(sorted(program.reservations)))
        ended = [program.reservations.pop(number) for number in sorted(program.reservations) if number <= n]
        done: set[int] = set()
        for reservation in ended:
            if reservation.hold is not None and self.is_live(reservation):
                done |= reservation.content
                self.model.settle(reservation.hold, set(reservation.content), "complete")
                self.free(reservation, counted=False)
        for reservation in ended:
            left = self.model.left_for(reservation) - done
            done |= left
            for number in left:
                self.model.messages[number].place = "gone"
        expected = (len(done), sum(len(it.content) for it in ended) - len(done))
        assert program.consumer.complete(n) == expected
        program.done = n
        assert program.consumer.complete(n) == (0, 0)

    @precondition(lambda self: any(it.reservations for it in self.programs.values()))
    @rule(name=consumers, data=st.data(), outcome=outcomes, has_states=st.booleans())
    def settle(self, name: str, data: st.DataObject, outcome: str, has_states: bool) -> None:
        """Settle some messages of a number, with states of their sessions or without; others are left out."""
        _, program = self.program(name)
        for reservation in program.reservations.values():
            if not self.model.messages:
                continue
            chosen = st.sampled_from(sorted(self.model.messages))
            if reservation.content:
                chosen |= st.sampled_from(sorted(reservation.content))
            some = data.draw(st.lists(chosen, max_size=4, unique=True))
            stated = data.draw(st.dictionaries(st.sampled_from(some), st.sampled_from(STATES))) if some else {}
            options: dict[str, Any] = {"session_states": stated} if has_states else {}
            plan = {"id": reservation.id}
            if reservation.hold is None or not self.is_live(reservation):
                with pytest.raises(MessageLockLostError):
                    program.consumer.settle(plan, some, outcome, **options)
                continue
            settled = set(some) & reservation.content
            assert program.consumer.settle(plan, some, outcome, **options) == len(settled)
            for number in sorted(settled & stated.keys()) if has_states else ():
                self.model.set_state(self.model.messages[number].session, stated[number])
            reservation.content -= settled
            reservation.settled += len(settled)
            self.model.settle(reservation.hold, settled, outcome)

    @precondition(lambda self: any(it.reservations for it in self.programs.values()))
    @rule(name=consumers)
    def cancel(self, name: str) -> None:
        """Cancel all reservations of a consumer."""
        name, program = self.program(name)
        live = [it for it in program.reservations.values() if self.is_live(it)]
        assert program.consumer.handle.cancel_reservation(name) == sum(len(it.content) for it in live)
        for reservation in live:
            self.free(reservation, counted=False)
        program.reservations.clear()

    def keep(self, receiver: ServiceBusReceiver) -> None:
        """Record an accepted session."""
        assert receiver.session is not None
        session = receiver.session.session_id
        assert session is not None
        hold = self.model.take(self.model.now + LOCK_SECONDS, set(), {session})
        self.competitors.append(Competitor(receiver, session, hold))

    @precondition(lambda self: len(self.competitors) < COMPETITORS_MAX)
    @rule(session=sessions | st.none())
    def accept(self, session: str | None) -> None:
        """Accept a session unless it is held, or the next available one."""
        if session is None:
            self.accept_next()
            return
        receiver = self.client.get_queue_receiver("q", session_id=session, max_wait_time=0)
        if self.model.holder_of(session):
            with pytest.raises(SessionCannotBeLockedError):
                receiver.__enter__()
        else:
            self.keep(receiver.__enter__())

    def accept_next(self) -> None:
        """Accept the next available session."""
        available = self.model.available()
        receiver = self.client.get_queue_receiver("q", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
        if not available:
            with pytest.raises(OperationTimeoutError):
                receiver.__enter__()
            return
        self.keep(receiver.__enter__())
        assert self.competitors[-1].session in available

    @precondition(lambda self: self.competitors)
    @rule(data=st.data(), count=st.integers(0, 4), state=st.sampled_from(STATES))
    def receive(self, data: st.DataObject, count: int, state: bytes | None) -> None:
        """Receive the next messages of an accepted session, or set its state."""
        competitor = data.draw(st.sampled_from(self.competitors))
        if not count:
            session = competitor.receiver.session
            assert session is not None
            assert session.get_state() == self.model.states.get(competitor.session)
            session.set_state(state)
            self.model.set_state(competitor.session, state)
            return
        expected = self.model.ready(competitor.session)[:count]
        messages = competitor.receiver.receive_messages(count)
        assert [message.sequence_number for message in messages] == expected
        competitor.hold.numbers |= set(expected)
        competitor.messages += messages

    @precondition(lambda self: any(it.messages for it in self.competitors))
    @rule(data=st.data(), outcome=outcomes)
    def settle_received(self, data: st.DataObject, outcome: str) -> None:
        """Settle a received message."""
        competitor = data.draw(st.sampled_from([it for it in self.competitors if it.messages]))
        message = competitor.messages.pop(data.draw(st.integers(0, len(competitor.messages) - 1)))
        getattr(competitor.receiver, f"{outcome}_message")(message)
        self.model.settle(competitor.hold, {message.sequence_number}, outcome)

    @precondition(lambda self: self.competitors)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Close a receiver; no delivery is counted."""
        competitor = data.draw(st.sampled_from(self.competitors))
        self.competitors.remove(competitor)
        competitor.receiver.close()
        self.model.end(competitor.hold, counted=False)

    @rule(seconds=st.sampled_from([1.0, 15.0, 45.0]))
    def advance(self, seconds: float) -> None:
        """Advance the time; a receiver whose session expired is closed later."""
        self.clock.advance(seconds)
        self.model.advance(seconds)
        lost = [it for it in self.competitors if it.hold not in self.model.holds]
        for competitor in lost:
            self.competitors.remove(competitor)
            competitor.receiver.close()

    @invariant()
    def messages_are_those_of_the_model(self) -> None:
        """Nothing is lost, nothing is there twice, and the deliveries are counted."""
        for place, sub_queue in (("queue", None), ("dead", "deadletter")):
            shown = {number: (it.session_id, it.delivery_count) for number, it in self.peeked(sub_queue).items()}
            known = self.model.in_place("queue" if place == "queue" else "dead")
            assert shown == {number: (it.session, it.count) for number, it in known.items()}

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        """Each live reservation has its sessions, with their states."""
        for program, reservation in self.live():
            consumer, hold = program.consumer, reservation.hold
            found: dict[str, bytes | None] = {}
            for partition in range(len(self.upto)):
                found |= dict(consumer.handle.reserved_sessions(reservation.id, consumer.epoch, partition))
            assert hold is not None
            assert found == {session: self.model.states.get(session) for session in hold.sessions}


class DurableMachine(SessionReservationMachine):
    """The same in a directory that is closed, or left by a crash, and opened again."""

    def open(self, path: Path | None = None) -> None:
        """Open the directory."""
        if path is None:
            self.home = Path(tempfile.mkdtemp(prefix="oxbus-"))
            self.opens = 0
        super().open(self.home / str(self.opens))

    def teardown(self) -> None:
        """Close everything."""
        super().teardown()
        shutil.rmtree(self.home)

    @property
    def witnesses(self) -> list[str]:
        """Names of consumers, one with its record in each partition."""
        partitions = len(self.upto)
        candidates = [f"witness {number}" for number in range(100)]
        return list({oxbus.partition_id(name, partitions): name for name in candidates}.values())

    @rule(way=st.sampled_from(["close", "crash", "checkpoint and crash"]))
    def reopen(self, way: str) -> None:
        """End the namespace and open the directory again; the programs continue, the receivers are gone."""
        if way.startswith("checkpoint"):
            self.namespace.checkpoint()
        path = self.home / str(self.opens)
        self.opens += 1
        after = self.home / str(self.opens)
        if way.endswith("crash"):
            # No call waits until an expiry is written; an acquisition waits for all earlier entries of its partition.
            for name in self.witnesses:
                Consumer(self.namespace, "q", name)
            shutil.copytree(path, after)
            self.namespace.close()
            shutil.rmtree(path)
        else:
            self.namespace.close()
            path.rename(after)
        self.open(after)
        for competitor in self.competitors:
            self.model.end(competitor.hold, counted=True)
        self.competitors.clear()
        self.find_reservations()

    def find_reservations(self) -> None:
        """Live ones are live for a full duration, with the sessions of their messages; the others stay expired."""
        handle = self.namespace._reservations("q")
        found = {(it["consumer"], it["n"]): (it["state"], it["messages"]) for it in handle.reservations()}
        expected = {}
        for name, program in self.programs.items():
            program.consumer.handle = handle
            for n, reservation in program.reservations.items():
                is_live = self.is_live(reservation)
                expected[name, n] = ("live" if is_live else "lapsed", len(reservation.content))
                if reservation.hold is not None and is_live:
                    reservation.hold.until = self.model.now + RESERVED_SECONDS
                    reservation.hold.sessions = self.model.sessions_of(reservation.content)
        assert found == expected, (found, expected)


def run(machine: type[SessionReservationMachine], examples: int, **options: Any) -> None:
    """Let a machine run; the profile `explore` runs more examples."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    profile = settings.get_profile(settings.get_current_profile_name())
    if profile.max_examples > settings.get_profile("default").max_examples:
        examples = profile.max_examples
    budget = settings(max_examples=examples, stateful_step_count=60, suppress_health_check=checks)
    run_state_machine_as_test(type("Machine", (machine,), options), settings=budget)


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "plain"])
def test_in_memory(partitioned: bool) -> None:
    """Consumers, restarts, expiry and competitors."""
    run(SessionReservationMachine, 60, partitioned=partitioned)


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "plain"])
def test_in_a_directory(partitioned: bool) -> None:
    """The same with closes and crashes."""
    run(DurableMachine, 30, partitioned=partitioned)
