# SPDX-License-Identifier: Apache-2.0
"""Messages through a queue in memory, one at a time and by the hundred.

Single: all messages are sent, then each is received and completed before the next one is taken.
Every contender makes its message objects inside the timed part unless the shape says `made_before`.
"""

from __future__ import annotations

from typing import Any

from oxbus import ServiceBusMessage
from targets import DROPS_DUPLICATES

from cases import peer_queues
from cases.bus import BATCH, Bus, bodies_of, fill, hundreds, open_bus
from cases.case import Case, expect


def _send_single(bus: Bus) -> None:
    send = bus.sender.send_messages
    for body in bus.bodies:
        send(ServiceBusMessage(body))


def _send_by_hundred(bus: Bus) -> None:
    send, bodies = bus.sender.send_messages, bus.bodies
    for start in range(0, len(bodies), BATCH):
        send([ServiceBusMessage(body) for body in bodies[start : start + BATCH]])


def _prepare_hundreds(bus: Bus) -> Bus:
    bus.prepared = hundreds([ServiceBusMessage(body) for body in bus.bodies])
    return bus


def _send_made_before(bus: Bus) -> None:
    send = bus.sender.send_messages
    for messages in bus.prepared:
        send(messages)


def _drain_single(bus: Bus) -> int:
    receive, complete, count = bus.receiver.receive_messages, bus.receiver.complete_message, 0
    while messages := receive(max_wait_time=0):
        complete(messages[0])
        count += 1
    return count


def _drain_by_hundred(bus: Bus) -> int:
    receive, complete, count = bus.receiver.receive_messages, bus.receiver.complete_messages, 0
    while messages := receive(BATCH, max_wait_time=0):
        complete(messages)
        count += len(messages)
    return count


def _cycle_single(bus: Bus) -> int:
    _send_single(bus)
    return _drain_single(bus)


def _cycle_single_read(bus: Bus) -> int:
    _send_single(bus)
    receive, complete, count = bus.receiver.receive_messages, bus.receiver.complete_message, 0
    while messages := receive(max_wait_time=0):
        (message,) = messages
        count += len(b"".join(message.body or ())) > 0
        complete(message)
    return count


def _cycle_by_hundred(bus: Bus) -> int:
    _send_by_hundred(bus)
    return _drain_by_hundred(bus)


def _cycle_single_with_ids(bus: Bus) -> int:
    send = bus.sender.send_messages
    for number, body in enumerate(bus.bodies):
        send(ServiceBusMessage(body, message_id=str(number)))
    return _drain_single(bus)


def _cycle_by_hundred_with_ids(bus: Bus) -> int:
    send, bodies = bus.sender.send_messages, bus.bodies
    for start in range(0, len(bodies), BATCH):
        numbered = enumerate(bodies[start : start + BATCH], start)
        send([ServiceBusMessage(body, message_id=str(number)) for number, body in numbered])
    return _drain_by_hundred(bus)


def _check_sent(bus: Bus, _answer: None) -> None:
    expect("messages in the queue", bus.left(), len(bus.bodies))
    first = bus.receiver.peek_messages(1)
    expect("a body", b"".join(first[0].body or ()) in bus.bodies[:1000], wanted=True)


def _check_drained(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.left(), 0)


def _case(bench_id: str, bodies: list[bytes], run: Any, check: Any, ready: Any = lambda bus: bus) -> Case:
    return Case(bench_id, "oxbus", len(bodies), lambda: ready(open_bus(bodies)), run, check, Bus.close)


def cases(messages: int = 10_000) -> list[Case]:
    """Sending, draining, and both, for ours and the peers."""
    found: list[Case] = []
    for size, payload in ((100, "100B"), (1024, "1KiB")):
        bodies = bodies_of(size, messages)
        found += [
            _case(f"send_receive_complete/{payload}/single", bodies, _cycle_single, _check_drained),
            _case(f"send_receive_complete/{payload}/batch_100", bodies, _cycle_by_hundred, _check_drained),
        ]
    bodies = bodies_of(100, messages)
    for shape, run in (("single", _cycle_single_with_ids), ("batch_100", _cycle_by_hundred_with_ids)):
        bench_id = f"send_receive_complete/100B/{shape}_with_ids"
        for contender, drops in (("oxbus", False), (DROPS_DUPLICATES, True)):

            def ready(drops: bool = drops) -> Bus:
                return open_bus(bodies, partitioned=False, requires_duplicate_detection=drops)

            found.append(Case(bench_id, contender, len(bodies), ready, run, _check_drained, Bus.close))
        found += peer_queues.ceiling_cycle(bench_id, bodies, shape)
    return [
        *found,
        _case("send_receive_complete/100B/single_body_read", bodies, _cycle_single_read, _check_drained),
        _case("send/100B/single", bodies, _send_single, _check_sent),
        _case("send/100B/batch_100", bodies, _send_by_hundred, _check_sent),
        _case("send/100B/batch_100_made_before", bodies, _send_made_before, _check_sent, _prepare_hundreds),
        _case("receive_complete/100B/batch_100", bodies, _drain_by_hundred, _check_drained, fill),
        *peer_queues.cases(messages),
    ]
