# SPDX-License-Identifier: Apache-2.0
"""Each kind of call of asyncio that writes to a store: many of them wait at once, and none holds a thread."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from oxbus import Namespace, ServiceBusMessage, ServiceBusSubQueue
from oxbus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from oxbus.exceptions import InvalidOperationError, MessageAlreadySettled, MessageNotFoundError
from oxbus.management import ServiceBusAdministrationClient
from stored_loop import in_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path

    from oxbus import ServiceBusReceivedMessage

CALLS = 100
"""More than the 32 threads that a client has for calls that hold one."""

LONGER_THAN_A_TEST = timedelta(minutes=5)
"""The lock duration, so that a message that nobody releases stays locked."""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with two queues in a store that takes eight objects a second."""
    with Namespace(f"objects://{tmp_path}/slow", storage_options={"max_puts_per_second": "8"}) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True, lock_duration=LONGER_THAN_A_TEST)
        admin.create_queue("s", requires_session=True)
        yield namespace


@dataclass
class Handles:
    """A client with a sender and a receiver whose first calls were made."""

    client: ServiceBusClient
    sender: ServiceBusSender
    receiver: ServiceBusReceiver

    async def received(self, count: int = CALLS) -> list[ServiceBusReceivedMessage]:
        """Send so many messages and receive them."""
        await self.sender.send_messages([ServiceBusMessage(str(number)) for number in range(count)])
        found: list[ServiceBusReceivedMessage] = []
        while len(found) < count:
            found += await self.receiver.receive_messages(count)
        return found

    async def left(self, count: int, sub_queue: ServiceBusSubQueue | None = None) -> list[ServiceBusReceivedMessage]:
        """Receive and complete so many messages; then there are none."""
        found: list[ServiceBusReceivedMessage] = []
        async with self.client.get_queue_receiver("q", sub_queue=sub_queue) as receiver:
            while len(found) < count:
                found += await receiver.receive_messages(count)
            assert await receiver.receive_messages(max_wait_time=0) == []
            await receiver.complete_messages(found)
        return found


async def opened(client: ServiceBusClient, stack: AsyncExitStack) -> Handles:
    """Open the handles, and let the pools have the threads that the first calls need."""
    sender = await stack.enter_async_context(client.get_queue_sender("q"))
    receiver = await stack.enter_async_context(client.get_queue_receiver("q"))
    await sender.send_messages(ServiceBusMessage("first"))
    (first,) = await receiver.receive_messages()
    await receiver.complete_message(first)
    return Handles(client, sender, receiver)


async def at_once(calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Make calls that all wait for the store, and none of which starts a thread; return their results."""
    threads = threading.active_count()
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    while not all(task.done() for task in tasks):
        assert threading.active_count() <= threads
        await asyncio.sleep(0.01)
    return [task.result() for task in tasks]


async def abandons(it: Handles) -> None:
    """Each returns its message with the property."""
    messages = await it.received()
    await at_once([it.receiver.abandon_message(message, properties_to_modify={"a": "b"}) for message in messages])
    again = await it.left(CALLS)
    assert {(message.delivery_count, str(message.application_properties)) for message in again} == {(1, "{'a': 'b'}")}


async def abandons_lists(it: Handles) -> None:
    """Each list of one returns its message."""
    messages = await it.received()
    await at_once([it.receiver.abandon_messages([message], delay=0) for message in messages])
    assert {message.delivery_count for message in await it.left(CALLS)} == {1}


async def defers(it: Handles) -> None:
    """Deferred messages are received by number, and deferred again."""
    messages = await it.received()
    await at_once([it.receiver.defer_message(message) for message in messages])
    numbers = [message.sequence_number for message in messages]
    found = await at_once([it.receiver.receive_deferred_messages(number or 0) for number in numbers])
    assert sorted(str(message) for (message,) in found) == sorted(map(str, messages))
    await at_once([it.receiver.defer_messages([message]) for (message,) in found])
    assert await it.left(0) == []


async def dead_letters(it: Handles) -> None:
    """One by one and in lists, with their reason."""
    messages = await it.received()
    await at_once([it.receiver.dead_letter_message(message, "reason", "text") for message in messages[::2]])
    await at_once([it.receiver.dead_letter_messages([message], "reason", "text") for message in messages[1::2]])
    dead = await it.left(CALLS, ServiceBusSubQueue.DEAD_LETTER)
    assert {(message.dead_letter_reason, message.dead_letter_error_description) for message in dead} == {
        ("reason", "text")
    }
    with pytest.raises(MessageAlreadySettled):
        await it.receiver.dead_letter_message(messages[0])


async def schedules(it: Handles) -> None:
    """They are cancelled then."""
    later = datetime.now(UTC) + timedelta(days=1)
    numbers = await at_once(
        [it.sender.schedule_messages(ServiceBusMessage(str(number)), later) for number in range(CALLS)]
    )
    scheduled = await it.receiver.peek_messages(CALLS)
    assert sorted(number for (number,) in numbers) == sorted(message.sequence_number or 0 for message in scheduled)
    await at_once([it.sender.cancel_scheduled_messages(number) for number in numbers])
    assert await it.receiver.peek_messages(CALLS) == []
    with pytest.raises(MessageNotFoundError):
        await it.sender.cancel_scheduled_messages(numbers[0])


async def transactions(it: Handles) -> None:
    """Each completes a message."""
    messages = await it.received()
    open_ones = [it.client.transaction() for _ in messages]
    for number, transaction in enumerate(open_ones):
        await it.receiver.complete_message(messages[number], transaction=transaction)
    await at_once([transaction.commit() for transaction in open_ones])
    assert await it.left(0) == []
    with pytest.raises(MessageAlreadySettled):
        await it.receiver.complete_message(messages[0])
    with pytest.raises(InvalidOperationError):
        await open_ones[0].commit()


async def scheduled_in_transactions(it: Handles) -> None:
    """The lists get their numbers with the commit."""
    later = datetime.now(UTC) + timedelta(days=1)
    open_ones = [it.client.transaction() for _ in range(CALLS)]
    lists = [
        await it.sender.schedule_messages(
            ServiceBusMessage("x", partition_key=str(number)), later, transaction=transaction
        )
        for number, transaction in enumerate(open_ones)
    ]
    assert lists == [[]] * CALLS
    await at_once([transaction.commit() for transaction in open_ones])
    assert len({number for (number,) in lists}) == CALLS


async def rows(it: Handles) -> None:
    """Tables of one row are sent and settled."""
    stored = await at_once([it.sender.send_arrow(pa.table({"body": [str(number)]})) for number in range(CALLS)])
    assert sum(sum(by_partition.values()) for by_partition in stored) == CALLS
    table = pa.table(await it.receiver.receive_arrow(CALLS))
    while table.num_rows < CALLS:
        table = pa.concat_tables([table, pa.table(await it.receiver.receive_arrow(CALLS))])
    await at_once([it.receiver.settle_arrow(table.slice(row, 1), "abandon") for row in range(CALLS)])
    assert sorted(map(str, await it.left(CALLS))) == sorted(map(str, range(CALLS)))


@pytest.mark.parametrize(
    "calls",
    [abandons, abandons_lists, defers, dead_letters, schedules, transactions, scheduled_in_transactions, rows],
    ids=lambda calls: calls.__name__,
)
def test_a_hundred_calls_wait_for_a_slow_store_without_threads(
    slow: Namespace, calls: Callable[[Handles], Awaitable[None]]
) -> None:
    """All are under way at once, and each has its effect."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, AsyncExitStack() as stack:
            await calls(await opened(client, stack))

    in_loop(work)


def test_states_of_a_hundred_sessions_wait_for_a_slow_store_without_threads(slow: Namespace) -> None:
    """Each session has its own; a session that was closed has lost its lock."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, AsyncExitStack() as stack:
            await opened(client, stack)
            receivers = [client.get_queue_receiver("s", session_id=str(number)) for number in range(CALLS)]
            for receiver in receivers:
                await stack.enter_async_context(receiver)
            sessions = [receiver.session for receiver in receivers if receiver.session is not None]
            await at_once([session.set_state(f"state {session.session_id}") for session in sessions])
            states = [await session.get_state() for session in sessions]
            assert states == [f"state {number}".encode() for number in range(CALLS)]
            await at_once([session.set_state(None) for session in sessions])
            assert [await session.get_state() for session in sessions] == [None] * CALLS

    in_loop(work)


def test_a_cancelled_commit_to_a_slow_store_ends(slow: Namespace) -> None:
    """Its task ends at once, and its operations take effect."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, AsyncExitStack() as stack:
            it = await opened(client, stack)
            (message,) = await it.received(1)
            transaction = client.transaction()
            await it.receiver.complete_message(message, transaction=transaction)
            commit = asyncio.create_task(transaction.commit())
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            await it.sender.send_messages(ServiceBusMessage("later"))
            assert [str(message) for message in await it.left(1)] == ["later"]
            with pytest.raises(MessageAlreadySettled):
                await it.receiver.complete_message(message)
            assert not message._committing

    in_loop(work)


def test_a_cancelled_receive_of_a_deferred_message_releases_it(slow: Namespace) -> None:
    """It is deferred as before."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, AsyncExitStack() as stack:
            it = await opened(client, stack)
            (message,) = await it.received(1)
            number = message.sequence_number
            assert number is not None
            await it.receiver.defer_message(message)
            receive = asyncio.create_task(it.receiver.receive_deferred_messages(number))
            await asyncio.sleep(0)
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            while True:
                try:
                    (again,) = await it.receiver.receive_deferred_messages(number)
                except MessageNotFoundError:  # it is still locked
                    await asyncio.sleep(0.01)
                else:
                    break
            assert str(again) == "0"
            await it.receiver.complete_message(again)

    in_loop(work)


def test_bad_arguments_raise_what_they_raise_elsewhere(slow: Namespace) -> None:
    """A call that could wait for the store checks its arguments first."""

    async def work() -> None:
        async with ServiceBusClient(slow) as client, AsyncExitStack() as stack:
            it = await opened(client, stack)
            (message,) = await it.received(1)
            receiver, sender, wrong = it.receiver, it.sender, cast("Any", "wrong")
            table = pa.table({"a": [1]})
            calls: list[tuple[Callable[[], Awaitable[Any]], type[Exception], str]] = [
                (lambda: receiver.abandon_message(message, delay=-1), ValueError, "delay"),
                (lambda: receiver.defer_message(message, properties_to_modify=cast("Any", {1: 2})), TypeError, "key"),
                (lambda: receiver.dead_letter_message(wrong), TypeError, "received message"),
                (lambda: sender.schedule_messages(ServiceBusMessage("x"), wrong), TypeError, "datetime"),
                (lambda: sender.cancel_scheduled_messages(1, timeout=0), ValueError, "timeout"),
                (lambda: sender.cancel_scheduled_messages(wrong), TypeError, "int"),
                (lambda: receiver.receive_deferred_messages(-1), ValueError, "sequence"),
                (lambda: receiver.settle_arrow(table, "defer"), ValueError, "lock_token"),
                (lambda: receiver.settle_arrow(table, wrong), ValueError, "outcome"),
            ]
            for call, error, text in calls:
                with pytest.raises(error, match=text):
                    await call()
            await it.receiver.complete_message(message)
            async with client.get_queue_receiver("s", session_id="a") as of_session:
                session = of_session.session
                assert session is not None
                with pytest.raises(TypeError, match="state"):
                    await session.set_state(cast("Any", 1))
            with pytest.raises(ValueError, match="closed"):
                await session.set_state("late")

    in_loop(work)
