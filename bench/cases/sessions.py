# SPDX-License-Identifier: Apache-2.0
"""Messages through sessions, against the same queue without them, and accepting one session of very many."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bodies import bodies_of, read_message
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from plan import WHOLE, Plan
from targets import WITH_SESSIONS

from cases.bus import QUEUE, Bus, drain, open_bus
from cases.case import Case, expect
from cases.peer_queues import ceiling_cycle

if TYPE_CHECKING:
    from oxbus import ServiceBusReceiver

MESSAGES = 10_000
PER_SESSION = 100
MANY = 100_000
OF_MANY = 10
"""One in so many of these sessions is accepted."""


def _send(bus: Bus, count: int) -> None:
    """Send to sessions in turn, `count` messages at once to each."""
    send, bodies = bus.sender.send_messages, bus.bodies
    for session, start in enumerate(range(0, len(bodies), PER_SESSION)):
        session_id = f"session-{session}"
        for first in range(start, start + PER_SESSION, count):
            messages = [ServiceBusMessage(body, session_id=session_id) for body in bodies[first : first + count]]
            send(messages if count > 1 else messages[0])


def _plain(bus: Bus, at_once: int) -> int:
    _send(bus, at_once)
    return drain(bus.receiver, at_once, bus.body_bytes)


def _by_session(bus: Bus, at_once: int) -> int:
    _send(bus, at_once)
    count = 0
    for _ in range(0, len(bus.bodies), PER_SESSION):
        with bus.client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
            if at_once == 1:
                count += drain(receiver, 1, bus.body_bytes)
            else:
                count += _take_whole(receiver, bus.body_bytes)
    return count


def _take_whole(receiver: ServiceBusReceiver, body_bytes: int) -> int:
    """Receive a session's messages with one call and complete them with another."""
    messages = receiver.receive_messages(PER_SESSION, max_wait_time=0)
    for message in messages:
        read_message(message, body_bytes)
    receiver.complete_messages(messages)
    return len(messages)


def _check(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.remaining(), 0)


def _open_many(sessions: int) -> Bus:
    bus = open_bus(requires_session=True)
    for number in range(sessions):
        bus.sender.send_messages(ServiceBusMessage(b"x", session_id=f"session-{number}"))
    bus.prepared = sessions
    return bus


def _accept_many(bus: Bus) -> int:
    """Accept and give back a tenth of the sessions, one after the other."""
    ids = set()
    for _ in range(bus.prepared // OF_MANY):
        with bus.client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
            ids.add(receiver.session.session_id)  # type: ignore[union-attr] # it has one
    return len(ids)


def _check_accepted(bus: Bus, count: int) -> None:
    expect("sessions accepted", count, bus.prepared // OF_MANY)
    expect("messages left", bus.remaining(), bus.prepared)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """The cycle with and without sessions, and the next session of 100,000."""
    bodies = bodies_of(100, plan.of(MESSAGES, 2 * PER_SESSION))
    found = []
    for shape, at_once in (("single", 1), ("batch_100", PER_SESSION)):
        bench_id = f"send_receive_complete/100B/{shape}_with_session_ids"
        for contender, run, requires in (("oxbus", _plain, False), (WITH_SESSIONS, _by_session, True)):

            def ready(requires: bool = requires) -> Bus:
                return open_bus(bodies, requires_session=requires)

            run_so = partial(run, at_once=at_once)
            found.append(Case(bench_id, contender, len(bodies), ready, run_so, _check, Bus.close))
        found += ceiling_cycle(bench_id, bodies, at_once)
    many = plan.of(MANY, OF_MANY)
    bench_id, ready = "accept_next/1B/100k_sessions", partial(_open_many, many)
    return [*found, Case(bench_id, "oxbus", many // OF_MANY, ready, _accept_many, _check_accepted, Bus.close)]
