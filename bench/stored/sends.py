# SPDX-License-Identifier: Apache-2.0
"""Sends and receives of one contender, each kind against a fresh queue in a fresh store.

Messages are made in the loop, bodies are read, and settlements are confirmed, where the peer confirms them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bodies import read_bytes
from metrics import RATE
from turns import Found

from stored import bare_puts
from stored.scale import BODIES, BODY_BYTES, LIST, seconds_of
from stored.threads import together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.contract import BenchQueue
    from plan import Plan

    from stored.contenders import Contender

SINGLE = "send/1KiB/stored_single"
ONE_THREAD = "send/1KiB/stored_batch_100"
FOUR_THREADS = "send/1KiB/stored_4_threads_batch_100"
RECEIVE = "receive_complete/1KiB/stored_4_threads_batch_100"
SHARE = "ratio_to_bare_put"
SECONDS = 5.0
WARM_LISTS = 16
WAIT_SECONDS = 1.0
"""How long a receiver waits for more before it is done."""
PATIENCE_SECONDS = 20.0
"""How long it waits for the first."""


def figures(contender: Contender, plan: Plan, versions: dict[str, str]) -> Iterator[Found]:
    """Everything of one contender; beside a store in this program, what the bare store takes.

    The version of what keeps the messages is put into `versions`.
    """
    seconds = seconds_of(plan, SECONDS)
    level = contender.level.value
    bare: dict[int, float] = {}
    if contender.is_beside_bare and contender.place is not None:
        for found, threads, p50_seconds in bare_puts.figures(contender.place, contender.name, level, plan):
            bare[threads] = p50_seconds
            yield found

    def rates(threads: int, rate: float) -> dict[str, float]:
        """The share is of the messages that are on their way, divided by the time of a bare creation."""
        share = {SHARE: rate * bare[threads] / (threads * LIST)} if threads in bare else {}
        return {RATE: rate, **share}

    with contender.open() as queue:
        versions[contender.name] = queue.version if contender.place is None else contender.place.version()
        samples = one_at_a_time(queue, seconds)
        yield Found(SINGLE, contender.name, {RATE: len(samples) / sum(samples) * 1e6}, level, samples=samples)
    with contender.open() as queue:
        yield Found(ONE_THREAD, contender.name, rates(1, in_lists(queue, 1, seconds)), level)
    with contender.open() as queue:
        yield Found(FOUR_THREADS, contender.name, rates(4, in_lists(queue, 4, seconds)), level)
        yield Found(RECEIVE, contender.name, {RATE: received(queue, 4, seconds)}, level)


def one_at_a_time(queue: BenchQueue, seconds: float) -> list[float]:
    """Microseconds of each acknowledged send."""
    for body in BODIES[:WARM_LISTS]:
        queue.send(body)
    took: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        queue.send(BODIES[len(took) % LIST])
        took.append((time.perf_counter() - began) * 1e6)
    return took


def in_lists(queue: BenchQueue, threads: int, seconds: float) -> float:
    """Messages sent per second, in lists of 100."""

    def warm_up() -> None:
        queue.attach()
        for _ in range(WARM_LISTS // threads):
            queue.send_many(BODIES)

    def send(_thread: int) -> tuple[int, float]:
        count = 0
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            queue.send_many(BODIES)
            count += LIST
        return count, now

    return together(threads, warm_up, send)


def received(queue: BenchQueue, threads: int, seconds: float) -> float:
    """Messages received, read and completed per second, up to 100 with a call."""

    def warm_up() -> None:
        """The first messages of a receiver may take seconds: a member has to join its group."""
        queue.attach_receiver()
        queue.acknowledge([token for token, _ in queue.receive(LIST, PATIENCE_SECONDS)])

    def receive(_thread: int) -> tuple[int, float]:
        count, now = 0, time.perf_counter()
        end = now + seconds
        while now < end:
            deliveries = queue.receive(LIST, WAIT_SECONDS)
            if not deliveries:
                break
            for _, body in deliveries:
                read_bytes(body, BODY_BYTES)
            queue.acknowledge([token for token, _ in deliveries])
            count, now = count + len(deliveries), time.perf_counter()
        queue.detach()
        return count, now

    return together(threads, warm_up, receive)
