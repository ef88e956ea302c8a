# SPDX-License-Identifier: Apache-2.0
"""What every durable queue has to do: hand each message out once, and forget it once it is acknowledged.

With one thread, all messages are sent before the first is received.
With two and two, two threads send while two receive, and the time ends with the last acknowledgement.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from cases.bus import BATCH, bodies_of
from cases.case import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from peers.durable.contract import DurableQueue

SIDES = 2
WAIT_SECONDS = 0.05
IDLE_SECONDS = 30
"""A queue that hands out nothing for so long while messages are left has lost them."""


WARM_UP_LISTS = 16
"""Lists that go through before the time starts: the first files are made then, which happens once in a queue's life."""


def warm_up(queue: DurableQueue) -> None:
    """Send and drain what nobody measures."""
    bodies = bodies_of(100, WARM_UP_LISTS * BATCH)
    queue.attach()
    _send(queue, bodies, BATCH)
    received: list[bytes] = []
    while len(received) < len(bodies):
        deliveries = queue.receive(BATCH, IDLE_SECONDS)
        expect("something to receive while messages are left", bool(deliveries), wanted=True)
        queue.acknowledge([token for token, _ in deliveries])
        received += [body for _, body in deliveries]
    check(queue, bodies, received)


def one_thread(queue: DurableQueue, bodies: list[bytes], size: int) -> tuple[float, float]:
    """Send and drain; return the seconds until all were sent, and the seconds until all were acknowledged."""
    received: list[bytes] = []
    queue.attach()
    started = time.perf_counter()
    _send(queue, bodies, size)
    sent = time.perf_counter()
    while len(received) < len(bodies):
        deliveries = queue.receive(size, IDLE_SECONDS)
        expect("something to receive while messages are left", bool(deliveries), wanted=True)
        queue.acknowledge([token for token, _ in deliveries])
        received += [body for _, body in deliveries]
    ended = time.perf_counter()
    check(queue, bodies, received)
    return sent - started, ended - started


def two_and_two(queue: DurableQueue, bodies: list[bytes], size: int) -> float:
    """Send and drain at once; return the seconds until the last message was acknowledged."""
    shares = [bodies[side::SIDES] for side in range(SIDES)]
    drain = _Drain(queue, len(bodies), size)
    senders = [lambda part=part: _send(queue, part, size) for part in shares]
    started = _together(queue, [*senders, *[drain.run] * SIDES], drain.stop)
    check(queue, bodies, drain.received)
    return drain.ended - started


def check(queue: DurableQueue, bodies: list[bytes], received: list[bytes]) -> None:
    """Refuse a queue that lost, changed, repeated or kept a message."""
    expect("messages received", len(received), len(bodies))
    expect("the bodies that were sent", sorted(received) == sorted(bodies), wanted=True)
    expect("messages left", len(queue.receive(1, 0)), 0)


def _send(queue: DurableQueue, bodies: Sequence[bytes], size: int) -> None:
    if size == 1:
        for body in bodies:
            queue.send(body)
    else:
        for start in range(0, len(bodies), size):
            queue.send_many(bodies[start : start + size])


class _Drain:
    """Receivers in several threads that end when they have everything together."""

    def __init__(self, queue: DurableQueue, wanted: int, size: int) -> None:
        self.received: list[bytes] = []
        self.ended = 0.0
        self.stop = threading.Event()
        self._queue = queue
        self._wanted = wanted
        self._size = size
        self._mutex = threading.Lock()

    def run(self) -> None:
        """Receive and acknowledge; one thread's share."""
        last = time.perf_counter()
        while len(self.received) < self._wanted and not self.stop.is_set():
            deliveries = self._queue.receive(self._size, WAIT_SECONDS)
            if not deliveries:
                idle = time.perf_counter() - last
                expect("something to receive while messages are left", idle < IDLE_SECONDS, wanted=True)
                continue
            self._queue.acknowledge([token for token, _ in deliveries])
            last = time.perf_counter()
            with self._mutex:
                self.received += [body for _, body in deliveries]
                self.ended = max(self.ended, last)


def _together(queue: DurableQueue, work: Sequence[Callable[[], None]], stop: threading.Event) -> float:
    """Run each piece of work in a thread; return when they started, all threads attached."""
    ready = threading.Barrier(len(work) + 1)
    failures: list[Exception] = []

    def run(one: Callable[[], None]) -> None:
        try:
            queue.attach()
            ready.wait()
            one()
        except threading.BrokenBarrierError:
            pass  # another thread failed and has said why
        except Exception as error:  # noqa: BLE001 -- raised again by the calling thread
            failures.append(error)
            stop.set()
            ready.abort()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return started
