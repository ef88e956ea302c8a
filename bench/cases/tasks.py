# SPDX-License-Identifier: Apache-2.0
"""The cycle in tasks of one event loop, beside the same work by threads.

Single messages and lists: one task, or one thread, sends all messages, then receives, reads and completes them.
Receivers that wait are in `waves`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bodies import bodies_of, read_bytes, read_message, read_taken
from oxbus import ServiceBusMessage, aio
from peers.peeklock import Message
from peers.peeklock_tasks import PeekLockTasks
from plan import WHOLE, Plan
from targets import ASYNCIO, ASYNCIO_QUEUE, OURS, PEEKLOCK_TASKS, THREADS

from cases import waves
from cases.bus import BATCH, QUEUE, Bus, drain, open_bus
from cases.case import Case, expect
from cases.queueing import BYTES_MAX, MESSAGES, send_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Main = Callable[["Loop"], Coroutine[Any, Any, int]]

WAVES = 50
SHAPES = (("100B/single", 100, 1), ("100B/batch_100", 100, BATCH), ("1KiB/batch_100", 1024, BATCH))


@dataclass
class Loop:
    """An event loop, and the queue that its tasks use."""

    loop: asyncio.AbstractEventLoop
    queue: Any
    bodies: list[bytes]

    @property
    def body_bytes(self) -> int:
        """How long each body is."""
        return len(self.bodies[0])

    def run(self, main: Coroutine[Any, Any, int]) -> int:
        """Run a coroutine in the loop."""
        try:
            return self.loop.run_until_complete(main)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def close(self) -> None:
        """Close the loop, and the namespace if there is one."""
        self.loop.close()
        if isinstance(self.queue, TaskBus):
            self.queue.bus.close()


@dataclass
class TaskBus:
    """A namespace, and its handles for asyncio."""

    bus: Bus
    client: aio.ServiceBusClient
    sender: aio.ServiceBusSender
    receiver: aio.ServiceBusReceiver

    def __len__(self) -> int:
        """Messages in the queue, locked ones included."""
        return self.bus.remaining()


def _task_bus() -> TaskBus:
    bus = open_bus()
    client = aio.ServiceBusClient(bus.namespace)
    return TaskBus(bus, client, client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE))


# --- single messages and lists


async def _cycle_oxbus(state: Loop, at_once: int) -> int:
    send, receive = state.queue.sender.send_messages, state.queue.receiver.receive_messages
    complete, complete_many = state.queue.receiver.complete_message, state.queue.receiver.complete_messages
    bodies, body_bytes, count = state.bodies, state.body_bytes, 0
    if at_once == 1:
        for body in bodies:
            await send(ServiceBusMessage(body))
        while messages := await receive(max_wait_time=0):
            (message,) = messages
            read_message(message, body_bytes)
            await complete(message)
            count += 1
        return count
    for start in range(0, len(bodies), at_once):
        await send([ServiceBusMessage(body) for body in bodies[start : start + at_once]])
    while messages := await receive(at_once, max_wait_time=0):
        for message in messages:
            read_message(message, body_bytes)
        await complete_many(messages)
        count += len(messages)
    return count


async def _cycle_peeklock(state: Loop, at_once: int) -> int:
    queue, bodies, body_bytes, count = state.queue, state.bodies, state.body_bytes, 0
    if at_once == 1:
        for body in bodies:
            await queue.send(Message(body))
        while taken := await queue.receive(waits=False):
            (one,) = taken
            read_taken(one, body_bytes)
            await queue.complete(one[0])
            count += 1
        return count
    for start in range(0, len(bodies), at_once):
        await queue.send_many([Message(body) for body in bodies[start : start + at_once]])
    while taken := await queue.receive(at_once, waits=False):
        for one in taken:
            read_taken(one, body_bytes)
        await queue.complete_many([token for token, _ in taken])
        count += len(taken)
    return count


async def _cycle_asyncio_queue(state: Loop) -> int:
    put, get, body_bytes = state.queue.put, state.queue.get, state.body_bytes
    for body in state.bodies:
        await put(body)
    for _ in state.bodies:
        read_bytes(await get(), body_bytes)
    return len(state.bodies)


def _cycle_threads(bus: Bus, at_once: int) -> int:
    send_all(bus, at_once)
    return drain(bus.receiver, at_once, bus.body_bytes)


# --- the cases


def _check(state: Loop, count: int) -> None:
    expect("messages received", count, len(state.bodies))
    expect("messages left", len(state.queue), 0)


def _check_asyncio_queue(state: Loop, count: int) -> None:
    expect("messages received from asyncio.Queue", count, len(state.bodies))
    expect("messages left in asyncio.Queue", state.queue.qsize(), 0)


def _check_threads(bus: Bus, count: int) -> None:
    expect("messages received", count, len(bus.bodies))
    expect("messages left", bus.remaining(), 0)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Single messages, lists of 100, and 64 receivers that wait."""
    found = []
    for name, body_bytes, at_once in SHAPES:
        bodies = bodies_of(body_bytes, plan.of(min(MESSAGES, BYTES_MAX // body_bytes), 2 * BATCH))
        runs: tuple[Main, Main] = (partial(_cycle_oxbus, at_once=at_once), partial(_cycle_peeklock, at_once=at_once))
        floor = _cycle_asyncio_queue if at_once == 1 else None
        found += _cases_of(f"{ASYNCIO}{name}", bodies, runs, floor, partial(_cycle_threads, at_once=at_once))
    bodies = bodies_of(100, plan.of(WAVES, 2) * waves.RECEIVERS)
    runs = (waves.by_oxbus, waves.by_peeklock)
    name = f"{ASYNCIO}100B/{waves.RECEIVERS}_receivers"
    return found + _cases_of(name, bodies, runs, waves.by_asyncio_queue, waves.by_threads)


def _cases_of(
    name: str, bodies: list[bytes], runs: tuple[Main, Main], floor: Main | None, by_threads: Callable[[Bus], int]
) -> list[Case]:
    """The contenders of an id; `floor` is the run of `asyncio.Queue`."""

    def of_tasks(contender: str, make_queue: Callable[[], Any], main: Main, check: Any) -> Case:
        return Case(
            name,
            contender,
            len(bodies),
            lambda: Loop(asyncio.new_event_loop(), make_queue(), bodies),
            lambda state: state.run(main(state)),
            check,
            Loop.close,
        )

    ours, peeklock = runs
    return [
        of_tasks(OURS, _task_bus, ours, _check),
        Case(name, THREADS, len(bodies), lambda: open_bus(bodies), by_threads, _check_threads, Bus.close),
        of_tasks(PEEKLOCK_TASKS, PeekLockTasks, peeklock, _check),
        *([of_tasks(ASYNCIO_QUEUE, asyncio.Queue, floor, _check_asyncio_queue)] if floor else []),
    ]
