# SPDX-License-Identifier: Apache-2.0
"""The paths through Python that `instructions.py` counts: a body read, lists of a thousand, asyncio.

    python bench/counted.py          list the cases
    python bench/counted.py CASE…    run them; a call of `getppid` marks where each begins and where it ends

valgrind writes the counts of the marked parts, so importing, preparing and warming up are left out.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, aio
from oxbus.aio import _calls
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from oxbus import ServiceBusReceivedMessage

BODY = b"7" * 1024
QUEUE = "counted"
ROUNDS = 20
WARM_UP = 4


def mark() -> None:
    """Begin or end a counted part."""
    os.getppid()


def counted(round_of_case: Callable[[], object]) -> None:
    """Run the rounds of a case between two marks."""
    for _ in range(WARM_UP):
        round_of_case()
    mark()
    for _ in range(ROUNDS):
        round_of_case()
    mark()


def namespace() -> Namespace:
    """A namespace in memory with a partitioned queue."""
    made = Namespace()
    ServiceBusAdministrationClient(made).create_queue(QUEUE, enable_partitioning=True)
    return made


def messages(count: int) -> list[ServiceBusMessage]:
    """New messages of 1 KiB."""
    return [ServiceBusMessage(BODY) for _ in range(count)]


def read_bodies(read: Callable[[ServiceBusReceivedMessage], bytes | memoryview]) -> None:
    """Read the bodies of a hundred messages."""
    with ServiceBusClient(namespace()) as client, client.get_queue_receiver(QUEUE) as receiver:
        client.get_queue_sender(QUEUE).send_messages(messages(100))
        received = receiver.receive_messages(100, max_wait_time=0)

        def one_round() -> None:
            for message in received:
                read(message)

        counted(one_round)


def cycle(size: int) -> None:
    """Send, receive, read and complete a list of messages."""
    with (
        ServiceBusClient(namespace()) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):

        def one_round() -> None:
            sender.send_messages(messages(size))
            received = receiver.receive_messages(size, max_wait_time=0)
            for message in received:
                b"".join(message.body)
            receiver.complete_messages(received)

        counted(one_round)


async def counted_tasks(round_of_case: Callable[[], Awaitable[object]]) -> None:
    """Do what `counted` does in an event loop."""
    for _ in range(WARM_UP):
        await round_of_case()
    mark()
    for _ in range(ROUNDS):
        await round_of_case()
    mark()


@asynccontextmanager
async def handles() -> AsyncIterator[tuple[aio.ServiceBusSender, aio.ServiceBusReceiver]]:
    """A sender and a receiver for asyncio."""
    async with (
        aio.ServiceBusClient(namespace()) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        yield sender, receiver


async def cycle_in_loop(size: int) -> None:
    """Do what `cycle` does in an event loop."""
    async with handles() as (sender, receiver):

        async def one_round() -> None:
            await sender.send_messages(messages(size))
            received = await receiver.receive_messages(size, max_wait_time=0)
            for message in received:
                b"".join(message.body)
            await receiver.complete_messages(received)

        await counted_tasks(one_round)


async def singles_in_loop(count: int) -> None:
    """Send messages one by one in an event loop, then receive, read and complete each."""
    async with handles() as (sender, receiver):

        async def one_round() -> None:
            for _ in range(count):
                await sender.send_messages(ServiceBusMessage(BODY))
            while received := await receiver.receive_messages(max_wait_time=0):
                b"".join(received[0].body)
                await receiver.complete_message(received[0])

        await counted_tasks(one_round)


def in_loop(main: Coroutine[object, object, None]) -> None:
    """Run a case of asyncio."""
    asyncio.run(main)


CASES: dict[str, Callable[[], None]] = {
    "python/read_100_bodies": lambda: read_bodies(lambda message: b"".join(message.body)),
    "python/bytes_of_100_bodies": lambda: read_bodies(bytes),
    "python/view_of_100_bodies": lambda: read_bodies(memoryview),
    "python/cycle_1000": lambda: cycle(1000),
    "asyncio/100_singles": lambda: in_loop(singles_in_loop(100)),
    "asyncio/cycle_100": lambda: in_loop(cycle_in_loop(100)),
}


def main() -> None:
    """Run the cases of the command line, or list all."""
    names = sys.argv[1:]
    if not names:
        print(*CASES, sep="\n")
    # When the collector runs depends on what ran before, and how often tasks give way on how fast they are.
    gc.disable()
    _calls.TURN_MS = 1_000_000
    for name in names:
        CASES[name]()


if __name__ == "__main__":
    main()
