# SPDX-License-Identifier: Apache-2.0
"""The work of every queue: deliver each message once, and remove it once it is acknowledged.

With one thread, all messages are sent before the first is received.
With both sides, some threads send while as many receive, and the time ends with the last acknowledgement.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from bodies import bodies_of, read_bytes
from cases.bus import BATCH
from cases.case import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from peers.contract import BenchQueue

WAIT_SECONDS = 0.05
IDLE_SECONDS = 30
"""A queue that hands out nothing for so long while messages are left has lost them."""


WARM_UP_LISTS = 16
"""Lists that go through before the time starts: the first files are made then, which happens once in a queue's life."""


def warm_up(queue: BenchQueue) -> None:
    """Send and drain messages outside the measurement."""
    bodies = bodies_of(100, WARM_UP_LISTS * BATCH)
    queue.attach_receiver()
    queue.send_all(bodies, BATCH)
    received: list[bytes] = []
    queue.drain(len(bodies), BATCH, IDLE_SECONDS, len(bodies[0]), received)
    check(queue, bodies, received)


def one_thread(queue: BenchQueue, bodies: list[bytes], size: int, *, keep: bool = True) -> tuple[float, float]:
    """Send and drain; return the seconds until all were sent, and the seconds until all were acknowledged.

    Each body is read. With `keep` they are also compared with what was sent, once the time has ended; in memory,
    keeping them would cost more than moving them, so there the counts are compared.
    """
    received: list[bytes] | None = [] if keep else None
    queue.attach_receiver()
    started = time.perf_counter()
    queue.send_all(bodies, size)
    sent = time.perf_counter()
    done = queue.drain(len(bodies), size, IDLE_SECONDS, len(bodies[0]), received)
    ended = time.perf_counter()
    expect("messages received", done, len(bodies))
    if received is None:
        expect("messages left", len(queue.receive(1, 0)), 0)
    else:
        check(queue, bodies, received)
    return sent - started, ended - started


def both_sides(queue: BenchQueue, bodies: list[bytes], size: int, sides: int = 2) -> float:
    """Send in `sides` threads and drain in as many; return the seconds until the last message was acknowledged."""
    queue.detach()  # messages prefetched for this thread would be missing
    drain = _Drain(queue, len(bodies), size, len(bodies[0]))
    work = [(queue.attach, partial(queue.send_all, bodies[side::sides], size)) for side in range(sides)]
    started = _together([*work, *[(queue.attach_receiver, drain.run)] * sides], drain.stop)
    check(queue, bodies, drain.received)
    return drain.ended - started


def check(queue: BenchQueue, bodies: list[bytes], received: list[bytes]) -> None:
    """Refuse a queue that lost, changed, repeated or kept a message."""
    expect("messages received", len(received), len(bodies))
    expect("the bodies that were sent", sorted(received) == sorted(bodies), wanted=True)
    expect("messages left", len(queue.receive(1, 0)), 0)


class _Drain:
    """Receivers in several threads that end when they have everything together."""

    def __init__(self, queue: BenchQueue, wanted: int, size: int, body_bytes: int) -> None:
        self.received: list[bytes] = []
        self.ended = 0.0
        self.stop = threading.Event()
        self._queue = queue
        self._wanted = wanted
        self._size = size
        self._body_bytes = body_bytes
        self._mutex = threading.Lock()

    def run(self) -> None:
        """Receive, read and acknowledge; one thread's share."""
        last = time.perf_counter()
        while len(self.received) < self._wanted and not self.stop.is_set():
            deliveries = self._queue.receive(self._size, WAIT_SECONDS)
            if not deliveries:
                idle = time.perf_counter() - last
                expect("something to receive while messages are left", idle < IDLE_SECONDS, wanted=True)
                continue
            for _, body in deliveries:
                read_bytes(body, self._body_bytes)
            self._queue.acknowledge([token for token, _ in deliveries])
            last = time.perf_counter()
            with self._mutex:
                self.received += [body for _, body in deliveries]
                self.ended = max(self.ended, last)
        self._queue.detach()


def _together(work: Sequence[tuple[Callable[[], None], Callable[[], None]]], stop: threading.Event) -> float:
    """Run each piece of work in a thread, after its preparation; return when they started, all of them prepared."""
    ready = threading.Barrier(len(work) + 1)
    failures: list[Exception] = []

    def run(prepare: Callable[[], None], work_item: Callable[[], None]) -> None:
        try:
            prepare()
            ready.wait()
            work_item()
        except threading.BrokenBarrierError:
            pass  # another thread failed and has reported the reason
        except Exception as error:  # noqa: BLE001 -- raised again by the calling thread
            failures.append(error)
            stop.set()
            ready.abort()

    threads = [threading.Thread(target=run, args=both) for both in work]
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
