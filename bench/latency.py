# SPDX-License-Identifier: Apache-2.0
"""How long a waiting receiver takes to get a message that another thread sends, oxbus and peers in turn.

The sender waits until the receiver has waited for a moment, so that each sample includes a real wake-up.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
from typing import TYPE_CHECKING

from cases.bus import open_bus
from cases.case import expect
from oxbus import ServiceBusMessage, ServiceBusReceivedMessage
from peers.peeklock import Message, PeekLockQueue

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 2000
SETTLE_SECONDS = 0.0005
BODY = b"x" * 100


def _ping(send: Callable[[], object], receive: Callable[[], bytes], samples: int) -> list[float]:
    """Microseconds from before the send until the receiver holds the message."""
    times: list[float] = []
    sent_at = 0.0
    taken = threading.Semaphore(0)

    def wait_for_each() -> None:
        for _ in range(samples):
            body = receive()
            times.append((time.perf_counter() - sent_at) * 1e6)
            expect("the body", body, BODY)
            taken.release()

    thread = threading.Thread(target=wait_for_each)
    thread.start()
    for _ in range(samples):
        time.sleep(SETTLE_SECONDS)
        sent_at = time.perf_counter()
        send()
        taken.acquire()
    thread.join()
    return times


def oxbus_times(samples: int = SAMPLES) -> list[float]:
    """Ours; the completion of one message falls into the pause before the next."""
    bus = open_bus()
    held: list[ServiceBusReceivedMessage] = []

    def receive() -> bytes:
        for message in held:
            bus.receiver.complete_message(message)
        held[:] = bus.receiver.receive_messages(max_wait_time=10)
        return b"".join(held[0].body or ())

    try:
        return _ping(lambda: bus.sender.send_messages(ServiceBusMessage(BODY)), receive, samples)
    finally:
        bus.close()


def peeklock_times(samples: int = SAMPLES) -> list[float]:
    """The hand-written queue."""
    peer = PeekLockQueue()
    held: list[tuple[int, Message]] = []

    def receive() -> bytes:
        for token, _ in held:
            peer.complete(token)
        held[:] = peer.receive(timeout=10)
        return held[0][1].body

    return _ping(lambda: peer.send(Message(BODY)), receive, samples)


def simple_queue_times(samples: int = SAMPLES) -> list[float]:
    """The floor: no lock, no acknowledgement."""
    simple: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    return _ping(lambda: simple.put(BODY), simple.get, samples)


CONTENDERS = {"oxbus": oxbus_times, "PeekLock in Python": peeklock_times, "queue.SimpleQueue": simple_queue_times}


def measure(rounds: int = 3) -> dict[str, dict[str, float]]:
    """Median over interleaved rounds of the 50th and 99th percentile, per contender."""
    percentiles: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, times_of in CONTENDERS.items():
            cuts = statistics.quantiles(times_of(), n=100)
            percentiles[name].append((cuts[49], cuts[98]))
    return {
        name: {
            "latency_us_p50": statistics.median(p50 for p50, _ in found),
            "latency_us_p99": statistics.median(p99 for _, p99 in found),
        }
        for name, found in percentiles.items()
    }
