# SPDX-License-Identifier: Apache-2.0
"""How long a waiting receiver takes to get a message that another thread sends, whatever the queue."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from cases.case import expect

if TYPE_CHECKING:
    from peers.contract import BenchQueue

SETTLE_SECONDS = 0.001
WAIT_SECONDS = 30
SECONDS_MAX = 5
"""A queue whose receivers sleep on gets fewer samples."""
BODY = b"x" * 100


def samples_of(queue: BenchQueue, samples: int) -> list[float]:
    """Microseconds from before a send until a receiver in another thread holds the message."""
    times: list[float] = []
    sent_at = 0.0
    ready, taken = threading.Semaphore(0), threading.Semaphore(0)
    failures: list[Exception] = []
    ended: list[bool] = []

    def wait_for_each() -> None:
        held: list[Any] = []
        try:
            queue.attach_receiver()
            ready.release()
            for _ in range(samples):
                while not (deliveries := queue.receive(1, WAIT_SECONDS)):
                    expect("a queue that can wait", queue.can_wait, wanted=False)
                times.append((time.perf_counter() - sent_at) * 1e6)
                held[:] = deliveries
                expect("the body", held[0][1], BODY)
                last = bool(ended)
                taken.release()
                queue.acknowledge([token for token, _ in held])
                ready.release()
                if last:
                    break
            queue.detach()
        except Exception as error:  # noqa: BLE001 -- raised again by the calling thread
            failures.append(error)
            ready.release()
            taken.release()

    queue.detach()
    thread = threading.Thread(target=wait_for_each)
    thread.start()
    queue.attach()
    until = time.monotonic() + SECONDS_MAX
    for _ in range(samples):
        ready.acquire()
        time.sleep(SETTLE_SECONDS)
        if failures or ended:
            break
        # The last one: the receiver ends with what it is sent now.
        if time.monotonic() > until:
            ended.append(True)
        sent_at = time.perf_counter()
        queue.send(BODY)
        taken.acquire()
    thread.join()
    if failures:
        raise failures[0]
    return times
