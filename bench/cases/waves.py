# SPDX-License-Identifier: Apache-2.0
"""64 receivers that wait, each in its own task or thread.

Another one sends a message for each, waits until all are completed, and sends again.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bodies import read_bytes, read_message, read_taken
from oxbus import ServiceBusMessage
from peers.peeklock import Message

from cases.bus import QUEUE, Bus

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from cases.tasks import Loop

    Take = Callable[[], Coroutine[Any, Any, None]]
    """Receives one message, reads and completes it."""

RECEIVERS = 64


class Waves:
    """The messages of 64 receivers: the next ones are sent once all of the last are completed."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._completed = itertools.count(1)

    def completed(self) -> None:
        """Note a completed message."""
        if next(self._completed) % RECEIVERS == 0:
            self._done()


async def _waves(state: Loop, send: Callable[[bytes], Coroutine[Any, Any, None]], taker: Callable[[Loop], Take]) -> int:
    """Send to receivers in tasks, each of which calls its own `Take` again and again. An error of one ends all."""
    done, counts = asyncio.Event(), [0] * RECEIVERS
    waves = Waves(done.set)

    async def receive(number: int) -> None:
        take = taker(state)
        while True:
            await take()
            counts[number] += 1
            waves.completed()

    async with asyncio.TaskGroup() as group:
        receivers = [group.create_task(receive(number)) for number in range(RECEIVERS)]
        for start in range(0, len(state.bodies), RECEIVERS):
            done.clear()
            for body in state.bodies[start : start + RECEIVERS]:
                await send(body)
            await done.wait()
        for task in receivers:
            task.cancel()
    return sum(counts)


def _take_oxbus(state: Loop) -> Take:
    receiver, body_bytes = state.queue.client.get_queue_receiver(QUEUE), state.body_bytes
    receive, complete = receiver.receive_messages, receiver.complete_message

    async def take() -> None:
        (message,) = await receive()
        read_message(message, body_bytes)
        await complete(message)

    return take


def _take_peeklock(state: Loop) -> Take:
    receive, complete, body_bytes = state.queue.receive, state.queue.complete, state.body_bytes

    async def take() -> None:
        (one,) = await receive()
        read_taken(one, body_bytes)
        await complete(one[0])

    return take


def _take_asyncio_queue(state: Loop) -> Take:
    get, body_bytes = state.queue.get, state.body_bytes

    async def take() -> None:
        read_bytes(await get(), body_bytes)

    return take


async def by_oxbus(state: Loop) -> int:
    """Tasks that use ours."""
    send = state.queue.sender.send_messages
    return await _waves(state, lambda body: send(ServiceBusMessage(body)), _take_oxbus)


async def by_peeklock(state: Loop) -> int:
    """Tasks that use the hand-written queue."""
    send = state.queue.send
    return await _waves(state, lambda body: send(Message(body)), _take_peeklock)


async def by_asyncio_queue(state: Loop) -> int:
    """Tasks that use `asyncio.Queue`."""
    return await _waves(state, state.queue.put, _take_asyncio_queue)


class _Threads:
    """Receivers and a sender in threads. Closing the client ends their waits."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._done, self._over = threading.Event(), threading.Event()
        self._waves = Waves(self._done.set)

    def receive(self) -> int:
        """Receive until the client is closed; return how many were completed."""
        body_bytes, count = self._bus.body_bytes, 0
        try:
            receiver = self._bus.client.get_queue_receiver(QUEUE)
            while True:
                (message,) = receiver.receive_messages()
                read_message(message, body_bytes)
                receiver.complete_message(message)
                count += 1
                self._waves.completed()
        except ValueError:  # the client was closed
            if not self._over.is_set():
                raise
        return count

    def send(self) -> None:
        """Send all messages, then end the receivers."""
        sender, bodies = self._bus.client.get_queue_sender(QUEUE), self._bus.bodies
        for start in range(0, len(bodies), RECEIVERS):
            self._done.clear()
            for body in bodies[start : start + RECEIVERS]:
                sender.send_messages(ServiceBusMessage(body))
            self._done.wait()
            if self._over.is_set():
                return

    def end(self, _ended: object = None) -> None:
        """End all threads."""
        self._over.set()
        self._done.set()
        self._bus.client.close()


def by_threads(bus: Bus) -> int:
    """Threads that use ours. The first that ends, or fails, ends all."""
    threads = _Threads(bus)
    with ThreadPoolExecutor(RECEIVERS + 1) as pool:
        receivers = [pool.submit(threads.receive) for _ in range(RECEIVERS)]
        sending = pool.submit(threads.send)
        sending.add_done_callback(threads.end)
        for one in receivers:
            one.add_done_callback(threads.end)
        found = [one.result() for one in receivers]
        sending.result()
    return sum(found)
