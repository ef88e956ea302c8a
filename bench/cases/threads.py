# SPDX-License-Identifier: Apache-2.0
"""Two senders and two receivers at once, each in its own thread."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import ceiling
from oxbus import ServiceBusMessage
from peers.peeklock import Message, PeekLockQueue
from targets import CEILING

from cases.bus import QUEUE, Bus, bodies_of, open_bus
from cases.case import Case, expect
from cases.peer_queues import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDES = 2


def _together(work: Sequence[Callable[[], Any]]) -> list[Any]:
    answers: list[Any] = [None] * len(work)

    def one(place: int) -> None:
        answers[place] = work[place]()

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class _Quota:
    """How many messages the receivers still have to complete together."""

    def __init__(self, messages: int) -> None:
        self._left = messages
        self._mutex = threading.Lock()

    def take(self, count: int) -> bool:
        """Note `count` completed ones; true while some are left."""
        with self._mutex:
            self._left -= count
            return self._left > 0

    @property
    def left(self) -> int:
        return self._left


def _run_oxbus(bus: Bus, size: int) -> int:
    quota = _Quota(len(bus.bodies))
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
            while more and quota.left:
                messages = receiver.receive_messages(size, max_wait_time=0.05)
                if size > 1 and messages:
                    receiver.complete_messages(messages)
                elif messages:
                    receiver.complete_message(messages[0])
                count += len(messages)
                more = quota.take(len(messages))
        return count

    half = len(bus.bodies) // SIDES
    senders = [lambda part=bus.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES])[SIDES:])


def _run_peeklock(state: Peer, size: int) -> int:
    quota = _Quota(len(state.bodies))
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
        while more and quota.left:
            taken = peer.receive(size, 0.05)
            if size > 1:
                peer.complete_many([token for token, _ in taken])
            elif taken:
                peer.complete(taken[0][0])
            count += len(taken)
            more = quota.take(len(taken))
        return count

    half = len(state.bodies) // SIDES
    senders = [lambda part=state.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES])[SIDES:])


def _run_ceiling(state: Peer, size: int) -> int:
    quota = _Quota(len(state.bodies))
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
        while more and quota.left:
            taken = queue.receive(size)
            if not taken:
                time.sleep(0)  # it cannot wait
                continue
            if size > 1:
                queue.complete_many(taken)
            else:
                queue.complete(taken[0])
            count += len(taken)
            more = quota.take(len(taken))
        return count

    half = len(state.bodies) // SIDES
    senders = [lambda part=state.bodies[side * half : (side + 1) * half]: send(part) for side in range(SIDES)]
    return sum(_together([*senders, *[drain] * SIDES])[SIDES:])


def _ceiling_of(compiled: Any, bodies: list[bytes]) -> Peer:
    return Peer(compiled.Queue(), bodies)


def _check_bus(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.left(), 0)


def _check_peek(state: Peer, count: int) -> None:
    expect("messages received from the peer", count, len(state.bodies))
    expect("messages left in the peer", len(state.queue), 0)


def cases(messages: int = 40_000) -> list[Case]:
    """Single messages and batches of 100."""
    bodies = bodies_of(1024, messages)
    found = []
    for size, shape in ((1, "2+2_single"), (100, "2+2_batch_100")):
        name = f"send_receive_complete/1KiB/{shape}"

        def ours(bus: Bus, size: int = size) -> int:
            return _run_oxbus(bus, size)

        def peers(state: Peer, size: int = size) -> int:
            return _run_peeklock(state, size)

        def limit(state: Peer, size: int = size) -> int:
            return _run_ceiling(state, size)

        if (compiled := ceiling.load()) is not None:
            empty = partial(_ceiling_of, compiled, bodies)
            found.append(Case(name, CEILING, messages, empty, limit, _check_peek))
        found += [
            Case(name, "oxbus", messages, lambda: open_bus(bodies), ours, _check_bus, Bus.close),
            Case(name, "PeekLock in Python", messages, lambda: Peer(PeekLockQueue(), bodies), peers, _check_peek),
        ]
    return found
