# SPDX-License-Identifier: Apache-2.0
"""Threads that begin together, and the rate of what they did together."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

READY_SECONDS = 60
"""How long threads may take to connect."""


def together(threads: int, attach: Callable[[], object], work: Callable[[int], tuple[int, float]]) -> float:
    """Run `work` in threads that have done `attach`; return how much they did per second.

    `work` gets the number of its thread, and returns how much it did and when it had done the last of it.
    """
    barrier = threading.Barrier(threads + 1)

    def run(number: int) -> tuple[int, float]:
        try:
            attach()
        except BaseException:
            barrier.abort()
            raise
        barrier.wait(READY_SECONDS)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run, number) for number in range(threads)]
        try:
            barrier.wait(READY_SECONDS)
        except threading.BrokenBarrierError:
            for one in running:
                error = one.exception()
                if error is not None and not isinstance(error, threading.BrokenBarrierError):
                    raise error from None
            raise
        began = time.perf_counter()
        found = [one.result() for one in running]
    ended = max(at for _, at in found)
    return sum(count for count, _ in found) / (ended - began)
