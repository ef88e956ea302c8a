# SPDX-License-Identifier: Apache-2.0
"""Messages through a queue in memory: sent, received, their bodies read, completed; one by one and in lists.

All messages are sent; then each list, or each message, is received, read and completed before the next one is taken.
Every contender makes its message objects inside the timed part unless the shape has `made_before`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bodies import UNREAD, bodies_of
from oxbus import ServiceBusMessage
from plan import WHOLE, Plan
from targets import DROPS_DUPLICATES

from cases import peer_queues
from cases.bus import BATCH, Bus, drain, fill, hundreds, open_bus
from cases.case import Case, expect

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = 10_000
BYTES_MAX = 20_480_000
"""Bodies of a round take no more, so that large ones do not take longer than small ones."""


@dataclass(frozen=True)
class Shape:
    """How many messages go with a call, and how large they are."""

    name: str
    body_bytes: int
    at_once: int


SHAPES = (
    Shape("100B/single", 100, 1),
    Shape("100B/batch_100", 100, 100),
    Shape("1KiB/single", 1024, 1),
    Shape("1KiB/batch_100", 1024, 100),
    Shape("1KiB/batch_1000", 1024, 1000),
    Shape("10KiB/batch_100", 10_240, 100),
)
DRAINED = "receive_complete/100B/batch_100"


def send_all(bus: Bus, at_once: int) -> None:
    """Make and send a message of each body, up to `at_once` with a call."""
    send, bodies = bus.sender.send_messages, bus.bodies
    if at_once == 1:
        for body in bodies:
            send(ServiceBusMessage(body))
        return
    for start in range(0, len(bodies), at_once):
        send([ServiceBusMessage(body) for body in bodies[start : start + at_once]])


def _prepare_hundreds(bus: Bus) -> Bus:
    bus.prepared = hundreds([ServiceBusMessage(body) for body in bus.bodies])
    return bus


def _send_made_before(bus: Bus) -> None:
    send = bus.sender.send_messages
    for messages in bus.prepared:
        send(messages)


def _send_with_ids(bus: Bus, at_once: int) -> None:
    send, bodies = bus.sender.send_messages, bus.bodies
    if at_once == 1:
        for number, body in enumerate(bodies):
            send(ServiceBusMessage(body, message_id=str(number)))
        return
    for start in range(0, len(bodies), at_once):
        numbered = enumerate(bodies[start : start + at_once], start)
        send([ServiceBusMessage(body, message_id=str(number)) for number, body in numbered])


def _drain(at_once: int, *, read: bool = True) -> Callable[[Bus], int]:
    return lambda bus: drain(bus.receiver, at_once, bus.body_bytes, read=read)


def _cycle(at_once: int, send: Callable[[Bus, int], None] = send_all, *, read: bool = True) -> Callable[[Bus], int]:
    def run(bus: Bus) -> int:
        send(bus, at_once)
        return drain(bus.receiver, at_once, bus.body_bytes, read=read)

    return run


def _check_sent(bus: Bus, _answer: None) -> None:
    expect("messages in the queue", bus.remaining(), len(bus.bodies))
    first = bus.receiver.peek_messages(1)
    expect("a body", b"".join(first[0].body or ()) in bus.bodies[:1000], wanted=True)


def _check_drained(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.remaining(), 0)


def _case(bench_id: str, bodies: list[bytes], run: Any, check: Any, ready: Any = lambda bus: bus) -> Case:
    return Case(bench_id, "oxbus", len(bodies), lambda: ready(open_bus(bodies)), run, check, Bus.close)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Sending, draining, and both, for ours and the peers."""
    messages = plan.of(MESSAGES, 2 * BATCH)
    bodies = bodies_of(100, messages)
    return [
        *_cycles(messages),
        *_with_ids(bodies),
        _case("send/100B/single", bodies, lambda bus: send_all(bus, 1), _check_sent),
        _case("send/100B/batch_100", bodies, lambda bus: send_all(bus, BATCH), _check_sent),
        _case("send/100B/batch_100_made_before", bodies, _send_made_before, _check_sent, _prepare_hundreds),
        _case(DRAINED, bodies, _drain(BATCH), _check_drained, fill),
        _case(f"{DRAINED}{UNREAD}", bodies, _drain(BATCH, read=False), _check_drained, fill),
        *peer_queues.sends(bodies),
        *peer_queues.drains(DRAINED, bodies),
        *peer_queues.drains(f"{DRAINED}{UNREAD}", bodies, read=False),
    ]


def _cycles(messages: int) -> list[Case]:
    """Return two cases for each shape: one reads the bodies, the other does not."""
    found: list[Case] = []
    for shape in SHAPES:
        bodies = bodies_of(shape.body_bytes, min(messages, BYTES_MAX // shape.body_bytes))
        for read, ending in ((True, ""), (False, UNREAD)):
            bench_id = f"send_receive_complete/{shape.name}{ending}"
            found.append(_case(bench_id, bodies, _cycle(shape.at_once, read=read), _check_drained))
            found += peer_queues.cycles(bench_id, bodies, shape.at_once, read=read)
    return found


def _with_ids(bodies: list[bytes]) -> list[Case]:
    """In a plain queue, and in one that drops duplicates."""
    found: list[Case] = []
    for shape, at_once in (("single", 1), ("batch_100", BATCH)):
        bench_id, run = f"send_receive_complete/100B/{shape}_with_ids", _cycle(at_once, _send_with_ids)
        for contender, drops in (("oxbus", False), (DROPS_DUPLICATES, True)):

            def ready(drops: bool = drops) -> Bus:
                return open_bus(bodies, partitioned=False, requires_duplicate_detection=drops)

            found.append(Case(bench_id, contender, len(bodies), ready, run, _check_drained, Bus.close))
        found += peer_queues.ceiling_cycle(bench_id, bodies, at_once)
    return found
