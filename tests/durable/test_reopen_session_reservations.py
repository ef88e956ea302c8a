# SPDX-License-Identifier: Apache-2.0
"""Reservations of a queue with sessions after a namespace was closed, or its process died.

The journal has the messages of a reservation. Its sessions are those of its messages, so an open locks them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from durable_bus import PARTITIONS, WAYS, Bus, bodies
from oxbus import NEXT_AVAILABLE_SESSION
from oxbus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ReservationFencedError,
    ServiceBusError,
    SessionCannotBeLockedError,
)
from oxbus.testing import heal, inject_fault
from reserving import LOCK_SECONDS, Consumer, numbers_of, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceiver
    from oxbus.testing import ManualClock

SESSIONS = ["", *(f"s{number}" for number in range(7))]
DEPTH = 4
"""How many messages each session begins with."""


@pytest.fixture
def queue(bus: Bus, partitioned: bool) -> Bus:
    """The bus with an empty queue `q` with sessions, partitioned if the fixture is True."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, requires_session=True, max_delivery_count=5)
    return bus


@pytest.fixture
def filled(queue: Bus) -> Bus:
    """The bus with messages in all sessions."""
    fill(queue, SESSIONS)
    return queue


@pytest.fixture
def sessions_of(key_of: Callable[..., str]) -> list[str]:
    """A session of each partition."""
    return [key_of(partition) for partition in range(PARTITIONS)]


@pytest.fixture
def spread(bus: Bus, sessions_of: list[str]) -> Bus:
    """The bus with a partitioned queue, and messages in a session of each partition."""
    bus.admin.create_queue("q", enable_partitioning=True, requires_session=True)
    fill(bus, sessions_of)
    return bus


def fill(bus: Bus, sessions: list[str], count: int = DEPTH, first: int = 0) -> None:
    """Send numbered messages to sessions, one of each session in turn."""
    for number in range(first, first + count):
        for session in sessions:
            bus.send(str(number), session_id=session)


def again(bus: Bus, epoch: int, name: str = "c") -> Consumer:
    """The same program, which continues after the reopen: it does not acquire."""
    consumer = Consumer.__new__(Consumer)
    consumer.handle, consumer.name, consumer.epoch, consumer.done = bus.namespace._reservations("q"), name, epoch, 0
    return consumer


def accept(bus: Bus, session: Any = NEXT_AVAILABLE_SESSION) -> ServiceBusReceiver:
    """Accept a session without waiting."""
    return bus.client.get_queue_receiver("q", session_id=session, max_wait_time=0).__enter__()


def id_of(receiver: ServiceBusReceiver) -> str:
    """The session of a receiver."""
    assert receiver.session is not None
    assert receiver.session.session_id is not None
    return receiver.session.session_id


def received(bus: Bus, session: str) -> list[str]:
    """Receive and complete all messages of a session."""
    with accept(bus, session) as receiver:
        found = receiver.receive_messages(100)
        receiver.complete_messages(found)
        return bodies(found)


def drained(bus: Bus) -> dict[str, list[str]]:
    """Receive and complete all messages of all free sessions."""
    found: dict[str, list[str]] = {}
    while True:
        try:
            receiver = accept(bus)
        except OperationTimeoutError:
            return found
        messages = receiver.receive_messages(100)
        receiver.complete_messages(messages)
        found.setdefault(id_of(receiver), []).extend(bodies(messages))
        receiver.close()


def counts(bus: Bus, numbers: list[int]) -> set[int]:
    """The delivery counts of messages."""
    return {message.delivery_count for message in bus.peek() if message.sequence_number in numbers}


def texts(count: int, first: int = 0) -> list[str]:
    """The bodies of numbered messages."""
    return [str(number) for number in range(first, first + count)]


def check_held(bus: Bus, sessions: dict[str, bytes | None]) -> None:
    """No receiver gets these sessions, by id or next, and it gets all others."""
    for session in sessions:
        with pytest.raises(SessionCannotBeLockedError):
            accept(bus, session)
    found = []
    while True:
        try:
            found.append(accept(bus))
        except OperationTimeoutError:
            break
    assert sorted(map(id_of, found)) == sorted(set(SESSIONS) - sessions.keys())
    for receiver in found:
        receiver.close()


@pytest.mark.parametrize("way", WAYS)
def test_live_reservations_have_their_sessions_again(filled: Bus, way: str, clock: ManualClock) -> None:
    """No receiver gets them first, no delivery is counted, and their time starts again."""
    consumer = Consumer(filled.namespace, "q")
    first = consumer.reserve(1, sessions=3)
    second = consumer.reserve(2, 5)
    held = consumer.sessions(first) | consumer.sessions(second)
    assert len(held) == 5
    filled.reopen(way)
    clock.advance(LOCK_SECONDS - 1)
    check_held(filled, held)
    assert counts(filled, numbers_of(first) + numbers_of(second)) == {0}
    consumer = again(filled, consumer.epoch)
    assert consumer.sessions(first) | consumer.sessions(second) == held
    assert consumer.plan(1) == first
    assert consumer.reserve(2) == second
    assert consumer.complete(2) == (3 * DEPTH + 5, 0)
    filled.reopen(way)
    consumer = Consumer(filled.namespace, "q")
    assert consumer.done == 2
    rest = consumer.reserve(3)
    assert rest["messages"] == len(SESSIONS) * DEPTH - 3 * DEPTH - 5
    assert not {*numbers_of(rest)} & {*numbers_of(first), *numbers_of(second)}


@pytest.mark.parametrize("way", WAYS)
def test_later_messages_wait_for_their_session(filled: Bus, way: str) -> None:
    """Those of before the reopen and of after it; they follow in order, in the next reservation."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1)
    fill(filled, SESSIONS, 1, first=DEPTH)
    filled.reopen(way)
    fill(filled, SESSIONS, 1, first=DEPTH + 1)
    with pytest.raises(OperationTimeoutError):
        accept(filled)
    consumer = again(filled, consumer.epoch)
    assert consumer.reserve(2)["messages"] == 0
    assert consumer.plan(1) == plan
    assert consumer.complete(1) == (len(SESSIONS) * DEPTH, 0)
    assert drained(filled) == dict.fromkeys(SESSIONS, texts(2, DEPTH))


@pytest.mark.parametrize("way", WAYS)
def test_a_cut_run_goes_on(queue: Bus, way: str) -> None:
    """The rest of a session follows, over several reopens, in order and once."""
    fill(queue, ["a"], 12)
    consumer = Consumer(queue.namespace, "q")
    seen: list[int] = []
    for n in range(1, 5):
        plan = consumer.reserve(n, 3)
        queue.reopen(way)
        consumer = again(queue, consumer.epoch)
        assert consumer.plan(n) == plan
        seen += numbers_of(plan)
        assert consumer.complete(n) == (3, 0)
    assert seen == sorted(seen)
    assert len(set(seen)) == 12
    assert queue.peek() == []


@pytest.mark.parametrize("way", WAYS)
def test_expired_reservations_hold_no_session(filled: Bus, way: str, clock: ManualClock) -> None:
    """They stay expired; the number covers what no one took, and one delivery was counted."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1, sessions=3)
    taken, busy, _ = sorted(consumer.sessions(plan))
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.listed() == [("c", 1, 3 * DEPTH, "lapsed")]
    # No call waits until an expiry is written; a send to its partition waits for all earlier entries.
    fill(filled, SESSIONS, 1, first=DEPTH)
    filled.reopen(way)
    consumer = again(filled, consumer.epoch)
    assert consumer.listed() == [("c", 1, 3 * DEPTH, "lapsed")]
    with pytest.raises(MessageLockLostError):
        consumer.sessions(plan)
    assert counts(filled, numbers_of(plan)) == {1}
    assert received(filled, taken) == texts(DEPTH + 1)
    with accept(filled, busy):
        left = consumer.plan(1)
    assert (left["messages"], left["missing"]) == (DEPTH, 2 * DEPTH)
    assert {*numbers_of(left)} < {*numbers_of(plan)}
    assert counts(filled, numbers_of(left)) == {1}
    filled.reopen(way)
    consumer = again(filled, consumer.epoch)
    assert consumer.plan(1) == left
    assert received(filled, busy) == texts(DEPTH + 1)
    assert consumer.complete(1) == (DEPTH, 0)


@pytest.mark.parametrize("way", WAYS)
def test_expired_reservations_without_messages_stay_expired(filled: Bus, way: str, clock: ManualClock) -> None:
    """All messages were settled singly; no open makes the reservation live again."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1)
    consumer.settle(plan, numbers_of(plan), "complete")
    filled.reopen("close")
    consumer = again(filled, consumer.epoch)
    assert consumer.listed() == [("c", 1, 0, "live")]
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.listed() == [("c", 1, 0, "lapsed")]
    fill(filled, SESSIONS, 1)
    filled.reopen(way)
    assert again(filled, consumer.epoch).listed() == [("c", 1, 0, "lapsed")]


@pytest.mark.parametrize("way", WAYS)
def test_cancelled_reservations_hold_no_session(filled: Bus, way: str) -> None:
    """Any receiver may get them; no delivery is counted."""
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1)
    assert consumer.handle.cancel_reservation("c") == len(SESSIONS) * DEPTH
    filled.reopen(way)
    assert again(filled, consumer.epoch).listed() == []
    assert counts(filled, numbers_of(plan)) == {0}
    assert drained(filled) == dict.fromkeys(SESSIONS, texts(DEPTH))


@pytest.mark.parametrize("way", WAYS)
def test_restarted_programs_have_the_same_sessions(filled: Bus, way: str) -> None:
    """The count of attempts survives; no delivery is counted, and the older program is fenced."""
    numbers: list[int] = []
    older: Consumer | None = None
    for attempt in range(1, 4):
        consumer = Consumer(filled.namespace, "q")
        plan = consumer.reserve(1, 6)
        numbers = numbers or numbers_of(plan)
        assert (plan["attempt"], numbers_of(plan)) == (attempt, numbers)
        assert counts(filled, numbers) == {0}
        if older is not None:
            with pytest.raises(ReservationFencedError):
                again(filled, older.epoch).sessions(plan)
        check_held(filled, consumer.sessions(plan))
        older = consumer
        filled.reopen(way)


@pytest.mark.parametrize("outcome", ["complete", "dead_letter", "abandon"])
@pytest.mark.parametrize("way", WAYS)
def test_states_are_as_old_as_the_settled_messages(filled: Bus, way: str, outcome: str) -> None:
    """A state that was set in the same step survives; all sessions of messages that remain are held with theirs."""
    for session in ("s1", "s2"):
        with accept(filled, session) as receiver:
            assert receiver.session is not None
            receiver.session.set_state(b"before")
    consumer = Consumer(filled.namespace, "q")
    plan = consumer.reserve(1)
    found = {session: [m.sequence_number for m in filled.peek() if m.session_id == session] for session in SESSIONS}
    states: dict[int, bytes | None] = {found[""][0]: b"early", found[""][1]: b"late", found["s1"][0]: None}
    some = found[""][:2] + found["s1"][:1]
    assert consumer.settle(plan, some, outcome, session_states=states) == 3
    expected = dict.fromkeys(SESSIONS) | {"": b"late", "s2": b"before"}
    for _ in range(2):
        filled.reopen(way)
        consumer = again(filled, consumer.epoch)
        assert consumer.sessions(plan) == expected
        assert consumer.settle(plan, some, outcome, session_states=dict.fromkeys(some, b"repeated")) == 0
        assert consumer.sessions(plan) == expected
        assert numbers_of(consumer.plan(1)) == [number for number in numbers_of(plan) if number not in some]
    assert {m.sequence_number for m in filled.peek(sub_queue="deadletter")} == (
        {*some} if outcome == "dead_letter" else set()
    )
    assert consumer.complete(1) == (len(SESSIONS) * DEPTH - 3, 0)
    filled.reopen(way)
    assert {m.sequence_number: m.delivery_count for m in filled.peek()} == (
        dict.fromkeys(some, 1) if outcome == "abandon" else {}
    )
    for session, state in expected.items():
        with accept(filled, session) as receiver:
            assert receiver.session is not None
            assert receiver.session.get_state() == state


@pytest.mark.parametrize("way", WAYS)
def test_two_consumers_keep_their_sessions_apart(filled: Bus, way: str) -> None:
    """Each has its own after the reopen."""
    first, second = (Consumer(filled.namespace, "q", name) for name in ("one", "two"))
    plans = [first.reserve(1, sessions=3), second.reserve(1, sessions=3)]
    held = [first.sessions(plans[0]), second.sessions(plans[1])]
    assert not held[0].keys() & held[1].keys()
    filled.reopen(way)
    programs = again(filled, first.epoch, "one"), again(filled, second.epoch, "two")
    assert [program.plan(1) for program in programs] == plans
    assert [program.sessions(plan) for program, plan in zip(programs, plans, strict=True)] == held
    assert [program.complete(1) for program in programs] == [(3 * DEPTH, 0)] * 2


@pytest.mark.parametrize("crashes", [True, False])
@pytest.mark.parametrize("failing", range(1, 4))
def test_failed_completion_can_be_repeated(
    spread: Bus, sessions_of: list[str], key_of: Callable[..., str], failing: int, crashes: bool
) -> None:
    """One partition fails during it: nothing is lost, and the second try completes the rest and frees all sessions."""
    consumer = Consumer(spread.namespace, "q", key_of(0))
    assert consumer.reserve(1)["messages"] == PARTITIONS * DEPTH
    fill(spread, sessions_of, 1, first=DEPTH)
    inject_fault(spread.namespace, failing, "eio-write")
    with pytest.raises(ServiceBusError):
        consumer.complete(1)
    heal(spread.namespace, failing)
    completed, late = consumer.complete(1)
    assert late == 0
    assert completed in (0, PARTITIONS * DEPTH)
    if crashes:
        spread.reopen("crash")
    assert Consumer(spread.namespace, "q", key_of(0)).done == 1
    assert drained(spread) == dict.fromkeys(sessions_of, texts(1, DEPTH))


def test_reservation_that_could_not_be_written_is_written_later(spread: Bus, key_of: Callable[..., str]) -> None:
    """Its sessions are held meanwhile: a second try has the same messages, also after a crash."""
    consumer = Consumer(spread.namespace, "q", key_of(0))
    inject_fault(spread.namespace, 0, "eio-write")
    with pytest.raises(ServiceBusError):
        consumer.reserve(1)
    with pytest.raises(SessionCannotBeLockedError):
        accept(spread, key_of(1))
    heal(spread.namespace, 0)
    plan = consumer.reserve(1)
    assert plan["messages"] >= 3 * DEPTH
    spread.reopen("crash")
    consumer = again(spread, consumer.epoch, key_of(0))
    assert consumer.plan(1) == plan
    with pytest.raises(SessionCannotBeLockedError):
        accept(spread, key_of(1))


@pytest.mark.parametrize("fault", ["eio-write", "unavailable"])
@pytest.mark.parametrize("failing", range(PARTITIONS))
def test_settlement_and_state_fail_together(
    spread: Bus, sessions_of: list[str], key_of: Callable[..., str], failing: int, fault: str
) -> None:
    """In the partition that fails, neither happens; the others have both, and a repeated call does the rest."""
    consumer = Consumer(spread.namespace, "q", key_of((failing + 1) % PARTITIONS))
    plan = consumer.reserve(1)
    firsts = [part["ranges"][0][0] for part in plan["partitions"]]
    inject_fault(spread.namespace, failing, fault)
    with pytest.raises(ServiceBusError):
        consumer.settle(plan, firsts, "complete", session_states=dict.fromkeys(firsts, b"new"))
    heal(spread.namespace, failing)
    others = {session: b"new" for session in sessions_of if session != sessions_of[failing]}
    assert consumer.sessions(plan) == {sessions_of[failing]: None} | others
    assert {m.sequence_number for m in spread.peek()} & {*firsts} == {
        number for number in firsts if partition_of(number) == failing
    }
    assert consumer.settle(plan, firsts, "complete", session_states=dict.fromkeys(firsts, b"again")) == 1
    spread.reopen("crash")
    consumer = again(spread, consumer.epoch, consumer.name)
    assert consumer.sessions(plan) == {sessions_of[failing]: b"again"} | others
    assert consumer.complete(1) == (PARTITIONS * (DEPTH - 1), 0)
    assert spread.peek() == []


@pytest.mark.parametrize("fault", ["eio-write", "unavailable"])
def test_partition_out_of_service_contributes_nothing(
    spread: Bus, sessions_of: list[str], key_of: Callable[..., str], fault: str
) -> None:
    """It delays nothing, and its sessions come later."""
    consumer = Consumer(spread.namespace, "q", key_of(0))
    inject_fault(spread.namespace, 2, fault)
    if fault == "eio-write":
        with pytest.raises(ServiceBusError):
            fill(spread, [sessions_of[2]], 1, first=DEPTH)
    plan = consumer.reserve(1)
    assert {partition_of(number) for number in numbers_of(plan)} == {0, 1, 3}
    assert plan["messages"] == 3 * DEPTH
    heal(spread.namespace, 2)
    assert consumer.plan(1) == plan
    spread.reopen("crash")
    consumer = again(spread, consumer.epoch, key_of(0))
    assert consumer.plan(1) == plan
    later = consumer.reserve(2)
    assert consumer.sessions(later) == {sessions_of[2]: None}
    assert consumer.complete(2) == (PARTITIONS * DEPTH, 0)


def test_expiry_while_a_partition_is_out_of_service(
    spread: Bus, sessions_of: list[str], key_of: Callable[..., str], clock: ManualClock
) -> None:
    """All sessions are free once it is healed; the number has all messages again."""
    consumer = Consumer(spread.namespace, "q", key_of(0))
    plan = consumer.reserve(1)
    inject_fault(spread.namespace, 2, "unavailable")
    clock.advance(LOCK_SECONDS + 1)
    assert consumer.listed() == [(key_of(0), 1, PARTITIONS * DEPTH, "lapsed")]
    with pytest.raises(ServiceBusError):
        consumer.plan(1)
    heal(spread.namespace, 2)
    for session in sessions_of:
        accept(spread, session).close()
    again_planned = consumer.plan(1)
    assert numbers_of(again_planned) == numbers_of(plan)
    assert consumer.sessions(again_planned) == dict.fromkeys(sessions_of)


def test_completed_after_an_expiry(filled: Bus, clock: ManualClock) -> None:
    """A batch and its successor expired and overlap in a session: no one took its messages, so none come again."""
    consumer = Consumer(filled.namespace, "q")
    consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    consumer.reserve(2, 2)
    total = len(SESSIONS) * DEPTH
    assert consumer.complete(2) == (total, 2)
    filled.reopen("crash")
    assert filled.peek() == []


@pytest.mark.xfail(strict=True, reason="an expiry that was not written gives its reservation the messages back")
def test_unwritten_expiry_takes_nothing_back(bus: Bus, key_of: Callable[..., str], clock: ManualClock) -> None:
    """What another consumer reserved after the expiry stays its own, though the expiry was not written."""
    bus.admin.create_queue("q", enable_partitioning=True, requires_session=True)
    fill(bus, [key_of(2)])
    first, second = (Consumer(bus.namespace, "q", key_of(partition)) for partition in (0, 1))
    plan = first.reserve(1)
    inject_fault(bus.namespace, 0, "eio-write")
    clock.advance(LOCK_SECONDS + 1)
    taken = second.reserve(1)
    assert numbers_of(taken) == numbers_of(plan)
    bus.reopen("crash")
    assert again(bus, second.epoch, second.name).plan(1) == taken


@pytest.mark.parametrize("way", WAYS)
def test_subscription_with_sessions(bus: Bus, way: str) -> None:
    """A subscription is like a queue."""
    bus.admin.create_topic("t")
    bus.admin.create_subscription("t", "sub", requires_session=True)
    with bus.client.get_topic_sender("t") as sender:
        for text in texts(DEPTH):
            sender.send_messages([oxbus.ServiceBusMessage(text, session_id=session) for session in SESSIONS])
    path = "t/subscriptions/sub"
    consumer = Consumer(bus.namespace, path)
    plan = consumer.reserve(1, sessions=2)
    held = consumer.sessions(plan)
    bus.reopen(way)
    consumer.handle = bus.namespace._reservations(path)
    assert consumer.plan(1) == plan
    assert consumer.sessions(plan) == held
    for session in held:
        receiver = bus.client.get_subscription_receiver("t", "sub", session_id=session, max_wait_time=0)
        with pytest.raises(SessionCannotBeLockedError):
            receiver.__enter__()
    assert consumer.complete(1) == (2 * DEPTH, 0)
