# SPDX-License-Identifier: Apache-2.0
"""asyncio with a namespace in a store: calls that wait for the store hold no threads, and none of them is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus import Namespace, ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode
from oxbus.aio import ServiceBusClient, ServiceBusReceiver
from oxbus.exceptions import OperationTimeoutError, ServiceBusError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault
from stored_loop import in_loop
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLS = 500
"""More than the pool of an event loop has threads, on any machine."""

THREADS = 40
"""Threads of the pools of a client and of an event loop, and some."""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with a queue in a store that takes two objects a second."""
    with Namespace(f"objects://{tmp_path}/slow", storage_options={"max_puts_per_second": "2"}) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        yield namespace


async def received(receiver: ServiceBusReceiver, count: int) -> list[str]:
    """Receive and complete so many messages."""
    found: list[str] = []
    while len(found) < count:
        batch = await receiver.receive_messages(count, max_wait_time=LIVENESS_SECONDS)
        found += map(str, batch)
        await receiver.complete_messages(batch)
    return sorted(found)


async def most_threads_until(calls: list[asyncio.Task[None]]) -> int:
    """The most threads of this process until all calls have ended."""
    most = 0
    while not all(call.done() for call in calls):
        await asyncio.sleep(0.01)
        most = max(most, threading.active_count())
    return most


def test_five_hundred_calls_wait_for_a_slow_store_without_threads(slow: Namespace) -> None:
    """While the store takes its time all of them are under way; then each is acknowledged and received once."""

    async def work() -> None:
        async with (
            ServiceBusClient(slow) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("first"))
            (first,) = await receiver.receive_messages()
            await receiver.complete_message(first)
            threads = threading.active_count()
            sends = [asyncio.create_task(sender.send_messages(ServiceBusMessage(str(n)))) for n in range(CALLS)]
            assert await most_threads_until(sends) <= threads + THREADS
            await asyncio.gather(*sends)
            messages: list[ServiceBusReceivedMessage] = []
            while len(messages) < CALLS:
                messages += await receiver.receive_messages(CALLS)
            completions = [asyncio.create_task(receiver.complete_message(message)) for message in messages]
            assert await most_threads_until(completions) <= threads + THREADS
            await asyncio.gather(*completions)
            assert sorted(map(str, messages)) == sorted(map(str, range(CALLS)))
            assert await receiver.receive_messages(max_wait_time=0) == []

    in_loop(work)


def test_a_cancelled_send_to_a_slow_store_ends(slow: Namespace) -> None:
    """Its task ends at once, and the message is stored."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("first"))
            send = asyncio.create_task(sender.send_messages(ServiceBusMessage("cancelled")))
            await asyncio.sleep(0)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            async with client.get_queue_receiver("q") as receiver:
                assert await received(receiver, 2) == ["cancelled", "first"]

    in_loop(work)


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_a_cancelled_receive_from_a_slow_store_loses_nothing(slow: Namespace, mode: ServiceBusReceiveMode) -> None:
    """Its message returns without a counted delivery; one that was deleted is what the next call returns."""

    async def work() -> None:
        async with (
            ServiceBusClient(slow) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q", receive_mode=mode) as receiver,
        ):
            assert await receiver.receive_messages(max_wait_time=0) == []
            await sender.send_messages(ServiceBusMessage("one"))
            receive = asyncio.create_task(receiver.receive_messages())
            await asyncio.sleep(0)
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            (message,) = await receiver.receive_messages(max_wait_time=LIVENESS_SECONDS)
            assert (str(message), message.delivery_count) == ("one", 0)

    in_loop(work)


def test_a_loop_that_ends_during_a_receive_releases_its_message(slow: Namespace) -> None:
    """The next loop receives it."""
    cut_off: list[asyncio.Task[list[ServiceBusReceivedMessage]]] = []

    async def cut() -> None:
        client = ServiceBusClient(slow)
        receiver = client.get_queue_receiver("q")
        assert await receiver.receive_messages(max_wait_time=0) == []
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("one"))
        # The loop ends before it can take what this receives.
        cut_off.append(asyncio.create_task(receiver.receive_messages()))
        await asyncio.sleep(0)

    async def work() -> None:
        async with ServiceBusClient(slow) as client, client.get_queue_receiver("q") as receiver:
            assert await received(receiver, 1) == ["one"]

    asyncio.run(cut())
    in_loop(work)


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_a_loop_closes_the_namespace_while_its_calls_wait(
    slow: Namespace, mode: ServiceBusReceiveMode, tmp_path: Path
) -> None:
    """The close waits for them, though it keeps the loop from running. They have their results, or find it closed."""
    stored = {"one"}

    async def work() -> None:
        client = ServiceBusClient(slow)
        sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q", receive_mode=mode)
        assert await receiver.receive_messages(max_wait_time=0) == []
        await sender.send_messages(ServiceBusMessage("one"))
        receive = asyncio.create_task(receiver.receive_messages())
        send = asyncio.create_task(sender.send_messages(ServiceBusMessage("two")))
        await asyncio.sleep(0.05)
        slow.close()
        found, sent = await asyncio.gather(receive, send, return_exceptions=True)
        if sent is None:
            stored.add("two")
        if mode is ServiceBusReceiveMode.RECEIVE_AND_DELETE:
            # One that ends with an error may have removed any.
            stored.difference_update(map(str, found) if isinstance(found, list) else ("one", "two"))
        for outcome in (found, sent):
            assert not isinstance(outcome, BaseException) or isinstance(outcome, ServiceBusError | ValueError)

    in_loop(work)
    with (
        Namespace(f"objects://{tmp_path}/slow") as again,
        oxbus.ServiceBusClient(again).get_queue_receiver("q") as left,
    ):
        assert stored <= {str(message) for message in left.peek_messages(10)}


def test_the_loop_goes_on_while_a_store_is_away(slow: Namespace) -> None:
    """Sends that find the store away time out, and other tasks run meanwhile."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("first"))
            for partition in range(slow.partitions):
                inject_fault(slow, partition, "stall")
            sends = [asyncio.create_task(sender.send_messages(ServiceBusMessage("x"), timeout=0.5)) for _ in range(20)]
            ticks = 0
            while not all(send.done() for send in sends):
                await asyncio.sleep(0.01)
                ticks += 1
            assert ticks > 1, "a loop that waits itself finds them all done at its first look"
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {OperationTimeoutError}
            for partition in range(slow.partitions):
                heal(slow, partition)
            await sender.send_messages(ServiceBusMessage("last"))

    in_loop(work)
