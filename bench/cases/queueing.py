# SPDX-License-Identifier: Apache-2.0
"""Messages through a queue in memory, one at a time and by the hundred.

Single: all messages are sent, then each is received and completed before the next one is taken.
Every contender makes its message objects inside the timed part unless the shape says `made_before`.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any

import oxbus
from cases.case import Case, expect
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from peers.peeklock import Message, PeekLockQueue

BATCH = 100
QUEUE = "bench"


@dataclass
class Bus:
    """A fresh namespace in memory with one partitioned queue."""

    namespace: oxbus.Namespace
    client: ServiceBusClient
    sender: oxbus.ServiceBusSender
    receiver: oxbus.ServiceBusReceiver
    admin: ServiceBusAdministrationClient
    bodies: list[bytes]
    prepared: Any = None

    def left(self) -> int:
        """Messages in the queue, locked ones included."""
        return self.admin.get_queue_runtime_properties(QUEUE).total_message_count or 0

    def close(self) -> None:
        self.client.close()
        self.namespace.close()


def open_bus(bodies: list[bytes] | None = None, *, partitioned: bool = True) -> Bus:
    """Open one; every case starts with its own."""
    namespace = oxbus.Namespace()
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue(QUEUE, enable_partitioning=partitioned)
    client = ServiceBusClient(namespace)
    sender, receiver = client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE)
    return Bus(namespace, client, sender, receiver, admin, bodies or [])


def bodies_of(size: int, count: int) -> list[bytes]:
    """Distinct bodies of `size` bytes."""
    return [number.to_bytes(8, "big") * (size // 8) + b"." * (size % 8) for number in range(count)]


def fill(bus: Bus) -> Bus:
    """Send all bodies, by the hundred."""
    for start in range(0, len(bus.bodies), BATCH):
        bus.sender.send_messages([ServiceBusMessage(body) for body in bus.bodies[start : start + BATCH]])
    return bus


def _hundreds(messages: list[Any]) -> list[list[Any]]:
    return [messages[start : start + BATCH] for start in range(0, len(messages), BATCH)]


# --- ours


def _send_single(bus: Bus) -> None:
    send = bus.sender.send_messages
    for body in bus.bodies:
        send(ServiceBusMessage(body))


def _send_by_hundred(bus: Bus) -> None:
    send, bodies = bus.sender.send_messages, bus.bodies
    for start in range(0, len(bodies), BATCH):
        send([ServiceBusMessage(body) for body in bodies[start : start + BATCH]])


def _prepare_hundreds(bus: Bus) -> Bus:
    bus.prepared = _hundreds([ServiceBusMessage(body) for body in bus.bodies])
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


def _cycle_by_hundred(bus: Bus) -> int:
    _send_by_hundred(bus)
    return _drain_by_hundred(bus)


def _check_sent(bus: Bus, _answer: None) -> None:
    expect("messages in the queue", bus.left(), len(bus.bodies))
    first = bus.receiver.peek_messages(1)
    expect("a body", b"".join(first[0].body) in bus.bodies[:1000], wanted=True)


def _check_drained(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.left(), 0)


# --- the hand-written PeekLock queue


@dataclass
class Peek:
    """The peer's state."""

    queue: PeekLockQueue
    bodies: list[bytes]
    prepared: Any = None


def _peek(bodies: list[bytes]) -> Peek:
    return Peek(PeekLockQueue(), bodies)


def _peek_send_single(state: Peek) -> None:
    send = state.queue.send
    for body in state.bodies:
        send(Message(body))


def _peek_send_by_hundred(state: Peek) -> None:
    send, bodies = state.queue.send_many, state.bodies
    for start in range(0, len(bodies), BATCH):
        send([Message(body) for body in bodies[start : start + BATCH]])


def _peek_prepare(state: Peek) -> Peek:
    state.prepared = _hundreds([Message(body) for body in state.bodies])
    return state


def _peek_send_made_before(state: Peek) -> None:
    send = state.queue.send_many
    for messages in state.prepared:
        send(messages)


def _peek_drain_single(state: Peek) -> int:
    receive, complete, count = state.queue.receive, state.queue.complete, 0
    while messages := receive(timeout=0):
        complete(messages[0])
        count += 1
    return count


def _peek_drain_by_hundred(state: Peek) -> int:
    receive, complete, count = state.queue.receive, state.queue.complete_many, 0
    while messages := receive(BATCH, 0):
        complete(messages)
        count += len(messages)
    return count


def _peek_cycle_single(state: Peek) -> int:
    _peek_send_single(state)
    return _peek_drain_single(state)


def _peek_cycle_by_hundred(state: Peek) -> int:
    _peek_send_by_hundred(state)
    return _peek_drain_by_hundred(state)


def _peek_check_sent(state: Peek, _answer: None) -> None:
    expect("messages in the peer", len(state.queue), len(state.bodies))


def _peek_check_drained(state: Peek, count: int) -> None:
    expect("messages received from the peer", count, len(state.bodies))
    expect("messages left in the peer", len(state.queue), 0)


# --- queue.SimpleQueue: no locks, no acknowledgement, references only


def _simple_cycle(bodies: list[bytes]) -> int:
    simple: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    put, get = simple.put, simple.get_nowait
    for body in bodies:
        put(body)
    for _ in bodies:
        get()
    return simple.qsize()


def _simple_check(_state: Any, left: int) -> None:
    expect("messages left in SimpleQueue", left, 0)


def _bus_case(name: str, messages: int, size: int, run: Any, check: Any, ready: Any = lambda bus: bus) -> Case:
    bodies = bodies_of(size, messages)
    return Case(name, "oxbus", messages, lambda: ready(open_bus(bodies)), run, check, Bus.close)


def _peek_case(name: str, messages: int, size: int, run: Any, check: Any, ready: Any = lambda state: state) -> Case:
    bodies = bodies_of(size, messages)
    return Case(name, "PeekLock in Python", messages, lambda: ready(_peek(bodies)), run, check)


def _simple_case(name: str, messages: int, size: int) -> Case:
    bodies = bodies_of(size, messages)
    return Case(name, "queue.SimpleQueue", messages, lambda: bodies, _simple_cycle, _simple_check)


def _peek_filled(state: Peek) -> Peek:
    _peek_send_by_hundred(state)
    return state


def cases(messages: int = 50_000) -> list[Case]:
    """Sending, draining, and both, for ours and the peers."""
    found: list[Case] = []
    for size, payload in ((100, "100B"), (1024, "1KiB")):
        cycle, hundred = f"send_receive_complete/{payload}/single", f"send_receive_complete/{payload}/batch_100"
        found += [
            _bus_case(cycle, messages, size, _cycle_single, _check_drained),
            _peek_case(cycle, messages, size, _peek_cycle_single, _peek_check_drained),
            _simple_case(cycle, messages, size),
            _bus_case(hundred, messages, size, _cycle_by_hundred, _check_drained),
            _peek_case(hundred, messages, size, _peek_cycle_by_hundred, _peek_check_drained),
        ]
    size = 100
    single, hundred, made = "send/100B/single", "send/100B/batch_100", "send/100B/batch_100_made_before"
    drain = "receive_complete/100B/batch_100"
    return [
        *found,
        _bus_case(single, messages, size, _send_single, _check_sent),
        _peek_case(single, messages, size, _peek_send_single, _peek_check_sent),
        _bus_case(hundred, messages, size, _send_by_hundred, _check_sent),
        _peek_case(hundred, messages, size, _peek_send_by_hundred, _peek_check_sent),
        _bus_case(made, messages, size, _send_made_before, _check_sent, _prepare_hundreds),
        _peek_case(made, messages, size, _peek_send_made_before, _peek_check_sent, _peek_prepare),
        _bus_case(drain, messages, size, _drain_by_hundred, _check_drained, fill),
        _peek_case(drain, messages, size, _peek_drain_by_hundred, _peek_check_drained, _peek_filled),
    ]
