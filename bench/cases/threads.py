# SPDX-License-Identifier: Apache-2.0
"""Two senders and two receivers at once, each in its own thread; receivers read each body before they complete it."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import ceiling
from bodies import UNREAD, bodies_of, read_message, read_taken, read_tuple
from oxbus import ServiceBusMessage
from peers.peeklock import Message, PeekLockQueue
from plan import WHOLE, Plan
from targets import CEILING, PEEKLOCK

from cases.bus import QUEUE, Bus, open_bus
from cases.case import Case, expect
from cases.peer_queues import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDES = 2
MESSAGES = 40_000
WAIT_SECONDS = 0.001
"""How long a receiver waits for messages. At the end one waits in vain, and that is part of the measured time."""


def _together(work: Sequence[Callable[[], Any]], quota: _Quota) -> list[Any]:
    """Do each piece of work in its own thread. A failure ends the others and is raised here."""
    answers: list[Any] = [None] * len(work)
    failures: list[Exception] = []

    def run(index: int) -> None:
        try:
            answers[index] = work[index]()
        except Exception as error:  # noqa: BLE001 -- raised again by the calling thread
            failures.append(error)
            quota.take(quota.remaining)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers


class _Quota:
    """How many messages the receivers still have to complete together."""

    def __init__(self, messages: int) -> None:
        self._remaining = messages
        self._mutex = threading.Lock()

    def take(self, count: int) -> bool:
        """Note `count` completed ones; true while some are left."""
        with self._mutex:
            self._remaining -= count
            return self._remaining > 0

    @property
    def remaining(self) -> int:
        return self._remaining


def _run_oxbus(bus: Bus, size: int, *, read: bool) -> int:
    quota, body_bytes = _Quota(len(bus.bodies)), bus.body_bytes
    client = bus.client

    def send(bodies: list[bytes]) -> None:
        with client.get_queue_sender(QUEUE) as sender:
            for start in range(0, len(bodies), size):
                messages = [ServiceBusMessage(body) for body in bodies[start : start + size]]
                sender.send_messages(messages if size > 1 else messages[0])

    def drain() -> int:
        count = 0
        with client.get_queue_receiver(QUEUE) as receiver:
            more = True
            while more and quota.remaining:
                messages = receiver.receive_messages(size, max_wait_time=WAIT_SECONDS)
                if read:
                    for message in messages:
                        read_message(message, body_bytes)
                if size > 1 and messages:
                    receiver.complete_messages(messages)
                elif messages:
                    receiver.complete_message(messages[0])
                count += len(messages)
                more = quota.take(len(messages))
        return count

    half = len(bus.bodies) // SIDES
    senders = [lambda part=bus.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES], quota)[SIDES:])


def _run_peeklock(state: Peer, size: int, *, read: bool) -> int:
    quota, body_bytes = _Quota(len(state.bodies)), state.body_bytes
    peer = state.queue

    def send(bodies: list[bytes]) -> None:
        for start in range(0, len(bodies), size):
            messages = [Message(body) for body in bodies[start : start + size]]
            if size > 1:
                peer.send_many(messages)
            else:
                peer.send(messages[0])

    def drain() -> int:
        count = 0
        more = True
        while more and quota.remaining:
            taken = peer.receive(size, WAIT_SECONDS)
            if read:
                for one in taken:
                    read_taken(one, body_bytes)
            if size > 1:
                peer.complete_many([token for token, _ in taken])
            elif taken:
                peer.complete(taken[0][0])
            count += len(taken)
            more = quota.take(len(taken))
        return count

    half = len(state.bodies) // SIDES
    senders = [lambda part=state.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES], quota)[SIDES:])


def _run_ceiling(state: Peer, size: int, *, read: bool) -> int:
    quota, body_bytes = _Quota(len(state.bodies)), state.body_bytes
    queue = state.queue

    def send(bodies: list[bytes]) -> None:
        for start in range(0, len(bodies), size):
            if size > 1:
                queue.send_many(bodies[start : start + size])
            else:
                queue.send(bodies[start])

    def drain() -> int:
        count = 0
        more = True
        while more and quota.remaining:
            taken = queue.receive(size)
            if not taken:
                time.sleep(0)  # it cannot wait
                continue
            if read:
                for message in taken:
                    read_tuple(message, body_bytes)
            if size > 1:
                queue.complete_many(taken)
            else:
                queue.complete(taken[0])
            count += len(taken)
            more = quota.take(len(taken))
        return count

    half = len(state.bodies) // SIDES
    senders = [lambda part=state.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES], quota)[SIDES:])


def _check_bus(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.remaining(), 0)


def _check_peek(state: Peer, count: int) -> None:
    expect("messages received from the peer", count, len(state.bodies))
    expect("messages left in the peer", len(state.queue), 0)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Single messages, lists of 100, and lists whose bodies are not read."""
    bodies = bodies_of(1024, plan.of(MESSAGES, 400))
    return [
        case
        for shape, size, read in (("single", 1, True), ("batch_100", 100, True), (f"batch_100{UNREAD}", 100, False))
        for case in _cases_of(f"send_receive_complete/1KiB/2+2_{shape}", bodies, size, read=read)
    ]


def _cases_of(name: str, bodies: list[bytes], size: int, *, read: bool) -> list[Case]:
    count = len(bodies)
    ours, by_hand, limit = (partial(run, size=size, read=read) for run in (_run_oxbus, _run_peeklock, _run_ceiling))
    found = [
        Case(name, "oxbus", count, lambda: open_bus(bodies), ours, _check_bus, Bus.close),
        Case(name, PEEKLOCK, count, lambda: Peer(PeekLockQueue(), bodies), by_hand, _check_peek),
    ]
    if (compiled := ceiling.load()) is not None:
        found.insert(0, Case(name, CEILING, count, lambda: Peer(compiled.Queue(), bodies), limit, _check_peek))
    return found
