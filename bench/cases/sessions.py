# SPDX-License-Identifier: Apache-2.0
"""Messages through sessions, against the same queue without them, and accepting one session of very many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from targets import WITH_SESSIONS

from cases.bus import BATCH, QUEUE, Bus, bodies_of, open_bus
from cases.case import Case, expect
from cases.peer_queues import ceiling_cycle

if TYPE_CHECKING:
    from collections.abc import Callable

PER_SESSION = 100
MANY = 100_000


def _send(bus: Bus, count: int) -> None:
    """Send to sessions in turn, `count` messages at once to each."""
    send, bodies = bus.sender.send_messages, bus.bodies
    for session, start in enumerate(range(0, len(bodies), PER_SESSION)):
        session_id = f"session-{session}"
        for first in range(start, start + PER_SESSION, count):
            messages = [ServiceBusMessage(body, session_id=session_id) for body in bodies[first : first + count]]
            send(messages if count > 1 else messages[0])


def _plain_single(bus: Bus) -> int:
    _send(bus, 1)
    receive, complete, count = bus.receiver.receive_messages, bus.receiver.complete_message, 0
    while messages := receive(max_wait_time=0):
        complete(messages[0])
        count += 1
    return count


def _plain_by_hundred(bus: Bus) -> int:
    _send(bus, BATCH)
    receive, complete, count = bus.receiver.receive_messages, bus.receiver.complete_messages, 0
    while messages := receive(BATCH, max_wait_time=0):
        complete(messages)
        count += len(messages)
    return count


def _each_session(bus: Bus, drain: Callable[[Any], int]) -> int:
    count = 0
    for _ in range(0, len(bus.bodies), PER_SESSION):
        with bus.client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
            count += drain(receiver)
    return count


def _drain_single(receiver: Any) -> int:
    receive, complete, count = receiver.receive_messages, receiver.complete_message, 0
    while messages := receive(max_wait_time=0):
        complete(messages[0])
        count += 1
    return count


def _drain_by_hundred(receiver: Any) -> int:
    messages = receiver.receive_messages(BATCH, max_wait_time=0)
    receiver.complete_messages(messages)
    return len(messages)


def _sessions_single(bus: Bus) -> int:
    _send(bus, 1)
    return _each_session(bus, _drain_single)


def _sessions_by_hundred(bus: Bus) -> int:
    _send(bus, BATCH)
    return _each_session(bus, _drain_by_hundred)


def _check(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.left(), 0)


def _open_many() -> Bus:
    bus = open_bus(requires_session=True)
    for number in range(MANY):
        bus.sender.send_messages(ServiceBusMessage(b"x", session_id=f"session-{number}"))
    return bus


def _accept_many(bus: Bus) -> int:
    """Accept and give back a tenth of the sessions, one after the other."""
    ids = set()
    for _ in range(MANY // 10):
        with bus.client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
            ids.add(receiver.session.session_id)  # type: ignore[union-attr] # it has one
    return len(ids)


def _check_accepted(bus: Bus, count: int) -> None:
    expect("sessions accepted", count, MANY // 10)
    expect("messages left", bus.left(), MANY)


def cases(messages: int = 10_000) -> list[Case]:
    """The cycle with and without sessions, and the next session of 100,000."""
    bodies = bodies_of(100, messages)
    found = []
    for shape, plain, in_sessions in (
        ("single", _plain_single, _sessions_single),
        ("batch_100", _plain_by_hundred, _sessions_by_hundred),
    ):
        bench_id = f"send_receive_complete/100B/{shape}_with_session_ids"
        for contender, run, requires in (("oxbus", plain, False), (WITH_SESSIONS, in_sessions, True)):

            def ready(requires: bool = requires) -> Bus:
                return open_bus(bodies, requires_session=requires)

            found.append(Case(bench_id, contender, len(bodies), ready, run, _check, Bus.close))
        found += ceiling_cycle(bench_id, bodies, shape)
    accept = Case(
        "accept_next/1B/100k_sessions", "oxbus", MANY // 10, _open_many, _accept_many, _check_accepted, Bus.close
    )
    return [*found, accept]
