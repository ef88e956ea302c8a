# SPDX-License-Identifier: Apache-2.0
"""Calls of asyncio over a network: they occupy no thread, report errors, and can be cancelled."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.aio import ServiceBusClient
from oxbus.exceptions import MessageAlreadySettled, MessagingEntityNotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server


class NoThreads(ThreadPoolExecutor):
    """Refuses all work."""

    def submit(self, *_args: Any, **_options: Any) -> Any:
        """Refuse the work."""
        raise AssertionError("the call occupies a thread")


@pytest.fixture
def run(server: Server, admin: ServiceBusAdministrationClient) -> Callable[..., None]:
    """Run a coroutine with a client of the server, which has the queue `orders`."""
    admin.create_queue("orders")

    def run(body: Callable[[ServiceBusClient], Awaitable[None]]) -> None:
        async def main() -> None:
            async with ServiceBusClient.from_connection_string(server.connection_string) as client:
                await body(client)

        asyncio.run(main())

    return run


def test_sends_receives_and_completes_occupy_no_thread(run: Callable[..., None]) -> None:
    """So the number of tasks that wait for the server has no limit."""

    async def body(client: ServiceBusClient) -> None:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders", max_wait_time=30)
        await receiver.receive_messages(max_wait_time=0)  # Entering may wait in a thread.
        asyncio.get_running_loop().set_default_executor(NoThreads())
        sends = [sender.send_messages(ServiceBusMessage(str(number))) for number in range(100)]
        await asyncio.gather(*sends, sender.send_messages([ServiceBusMessage("last"), ServiceBusMessage("one")]))
        found: list[str] = []
        while len(found) < 102:
            messages = await receiver.receive_messages(max_message_count=40)
            found += map(str, messages)
            await receiver.complete_messages(messages[1:])
            await receiver.complete_message(messages[0])
        assert sorted(found) == sorted([*map(str, range(100)), "last", "one"])
        assert await receiver.receive_messages(max_wait_time=0) == []
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # Closing may wait in a thread.

    run(body)


def test_errors(run: Callable[..., None]) -> None:
    """They are the same as without asyncio."""

    async def body(client: ServiceBusClient) -> None:
        with pytest.raises(MessagingEntityNotFoundError):
            await client.get_queue_sender("unknown").send_messages(ServiceBusMessage("x"))
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders", max_wait_time=30)
        with pytest.raises(TypeError):
            await sender.send_messages("x")  # type: ignore[arg-type] # no message
        with pytest.raises(ValueError, match="timeout"):
            await sender.send_messages(ServiceBusMessage("x"), timeout=-1)
        await sender.send_messages(ServiceBusMessage("x"))
        (message,) = await receiver.receive_messages()
        await receiver.complete_message(message)
        with pytest.raises(MessageAlreadySettled):
            await receiver.complete_message(message)
        with pytest.raises(MessageAlreadySettled):
            await receiver.complete_messages([message])

    run(body)


def test_generators_are_read_once(run: Callable[..., None]) -> None:
    """A generator of messages is settled whole, as without asyncio."""

    async def body(client: ServiceBusClient) -> None:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders", max_wait_time=30)
        await sender.send_messages(ServiceBusMessage(str(number)) for number in range(5))
        messages = await receiver.receive_messages(max_message_count=5)
        await receiver.complete_messages(message for message in messages)  # type: ignore[arg-type] # no list
        with pytest.raises(MessageAlreadySettled):
            await receiver.complete_message(messages[-1])

    run(body)


def test_cancelled_calls_leave_the_client_usable(run: Callable[..., None]) -> None:
    """A cancelled send is stored once or not at all; a cancelled completion removes the message or leaves it."""

    async def body(client: ServiceBusClient) -> None:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders", max_wait_time=30)
        await receiver.receive_messages(max_wait_time=0)
        for turns in range(20):
            sending = asyncio.ensure_future(sender.send_messages(ServiceBusMessage(str(turns))))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
        await sender.send_messages(ServiceBusMessage("last"))
        found: list[str] = []
        while "last" not in found:
            for message in await receiver.receive_messages(max_message_count=50):
                found.append(str(message))
                completing = asyncio.ensure_future(receiver.complete_message(message))
                await asyncio.sleep(0)
                completing.cancel()
                await asyncio.wait([completing])
        assert len(set(found)) == len(found)
        await sender.send_messages(ServiceBusMessage("again"))
        (message,) = await receiver.receive_messages()
        assert str(message) == "again"
        await receiver.complete_message(message)

    run(body)
