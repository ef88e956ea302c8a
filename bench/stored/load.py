# SPDX-License-Identifier: Apache-2.0
"""A load at an even pace: senders that keep to a timetable, and receivers that read and complete what comes."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from bodies import read_bytes

from stored.scale import BODIES, BODY_BYTES, LIST

if TYPE_CHECKING:
    from peers.contract import BenchQueue

RECEIVERS_LEAST = 2
CYCLE_TAKES_SECONDS = 0.15
"""How long a receiver takes at most for a list while the rate is kept: the hand-out and the completion wait for the
store."""
SENDERS_OF_LISTS = 16
SENDS_TAKE_SECONDS = 0.05
"""How long a send takes at most while the rate is kept: there are senders for that many at once."""
SENDERS_MAX = 512
WAIT_SECONDS = 0.2


class Load:
    """A running load; a context manager that ends it.

    Sends that are late follow at once, so the rate is kept on the average, or missed if the queue is too slow.
    """

    def __init__(self, queue: BenchQueue, rate: float, size: int) -> None:
        self._queue, self._rate, self._size = queue, rate, size
        self._numbers = itertools.count()
        self._began = time.perf_counter()
        self._stop = threading.Event()
        at_once = SENDERS_OF_LISTS if size == LIST else min(SENDERS_MAX, max(4, int(rate * SENDS_TAKE_SECONDS)))
        self._sent = [0] * at_once
        receivers = max(RECEIVERS_LEAST, int(rate * CYCLE_TAKES_SECONDS / LIST))
        self._completed = [0] * receivers
        self._pool = ThreadPoolExecutor(at_once + receivers)
        self._running = [self._pool.submit(self._send, number) for number in range(at_once)]
        self._running += [self._pool.submit(self._receive, number) for number in range(receivers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        for one in self._running:
            one.result()

    @property
    def sent(self) -> int:
        """Messages whose sends were acknowledged."""
        return sum(self._sent)

    @property
    def completed(self) -> int:
        """Messages whose completion was confirmed."""
        return sum(self._completed)

    def _send(self, number: int) -> None:
        self._queue.attach()
        while not self._stop.is_set():
            place = next(self._numbers)
            due = self._began + place * self._size / self._rate
            if (left := due - time.perf_counter()) > 0 and self._stop.wait(left):
                return
            if self._size == 1:
                self._queue.send(BODIES[place % LIST])
            else:
                self._queue.send_many(BODIES)
            self._sent[number] += self._size

    def _receive(self, number: int) -> None:
        self._queue.attach_receiver()
        while not self._stop.is_set():
            deliveries = self._queue.receive(LIST, WAIT_SECONDS)
            for _, body in deliveries:
                read_bytes(body, BODY_BYTES)
            if deliveries:
                self._queue.acknowledge([token for token, _ in deliveries])
                self._completed[number] += len(deliveries)
