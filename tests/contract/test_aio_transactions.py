# SPDX-License-Identifier: Apache-2.0
"""Transactions of the asyncio API: the same rules, with `commit` and `rollback` awaited (B-306 to B-330)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessageAlreadySettled,
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusQuotaExceededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oxbus import ServiceBusReceivedMessage
    from oxbus.aio import ServiceBusClient
    from oxbus.testing import ManualClock

LIVENESS_SECONDS = 60
KEY = "key-a"


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in a new event loop, or fail if it hangs."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(main, LIVENESS_SECONDS))

    return run


def message(body: str, **options: Any) -> ServiceBusMessage:
    """A message with a key."""
    return ServiceBusMessage(body, partition_key=KEY, **options)


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies, in the order of the messages."""
    return [str(each) for each in messages]


def test_everything_commits_together(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Sends, schedules and all settlements of a transaction take effect at its commit (B-307, B-315)."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, max_wait_time=0) as receiver,
            client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters,
        ):
            for number in range(8):
                await sender.send_messages(message(str(number)))
            locked = await receiver.receive_messages(8)
            due = clock.now() + timedelta(minutes=1)
            async with client.transaction() as txn:
                await sender.send_messages(message("new"), transaction=txn)
                numbers = await sender.schedule_messages([message("later")], due, transaction=txn)
                await receiver.complete_message(locked[0], transaction=txn)
                await receiver.abandon_message(locked[1], transaction=txn)
                await receiver.defer_message(locked[2], transaction=txn)
                await receiver.dead_letter_message(locked[3], reason="why", transaction=txn)
                await receiver.complete_messages([locked[4]], transaction=txn)
                await receiver.abandon_messages([locked[5]], transaction=txn)
                await receiver.defer_messages([locked[6]], transaction=txn)
                await receiver.dead_letter_messages([locked[7]], reason="why", transaction=txn)
                assert await receiver.receive_messages() == []
                assert await dead_letters.peek_messages() == []
                assert numbers == []
            assert len(numbers) == 1
            assert texts(await receiver.receive_messages(10)) == ["1", "5", "new"]
            dead = await dead_letters.receive_messages(10)
            assert [(str(each), each.dead_letter_reason) for each in dead] == [("3", "why"), ("7", "why")]
            deferred = [locked[2].sequence_number, locked[6].sequence_number]
            assert texts(await receiver.receive_deferred_messages(deferred)) == ["2", "6"]
            with pytest.raises(MessageAlreadySettled):
                await receiver.complete_message(locked[0])

    run(main())


@pytest.mark.parametrize("way", ["exception", "rollback", "cancel"])
def test_rollback(
    queue_name: str, run: Callable[..., Any], way: str, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """An error, a rollback or a cancelled task changes nothing; locks stay valid (B-316)."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, max_wait_time=0) as receiver,
        ):
            await sender.send_messages(message("old"))
            (old,) = await receiver.receive_messages()

            async def work() -> None:
                async with client.transaction() as txn:
                    await sender.send_messages(message("lost"), transaction=txn)
                    await receiver.complete_message(old, transaction=txn)
                    if way == "exception":
                        raise KeyError
                    if way == "rollback":
                        await txn.rollback()
                    else:
                        await asyncio.Event().wait()

            task = asyncio.create_task(work())
            if way == "cancel":
                done, _ = await asyncio.wait({task}, timeout=0.1)
                assert not done
                task.cancel()
            results = await asyncio.gather(task, return_exceptions=True)
            expected: dict[str, type[object]] = {
                "exception": KeyError,
                "rollback": type(None),
                "cancel": asyncio.CancelledError,
            }
            assert isinstance(results[0], expected[way])
            assert texts(await receiver.peek_messages(10)) == ["old"]
            await receiver.complete_message(old)

    run(main())


@pytest.mark.parametrize("name", ["partition_key", "session_id"])
def test_the_sample(
    queue_name: str, run: Callable[..., Any], name: str, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Both samples of the partitioning page: with PartitionKey and with SessionId (B-308, B-312)."""
    property_: dict[str, Any] = {name: "myKey"}

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            txn = client.transaction()
            with txn.scope():
                await sender.send_messages(ServiceBusMessage("Hello", **property_))
                txn.complete()
            await txn.commit()
            abandoned = client.transaction()
            with abandoned.scope():
                await sender.send_messages(ServiceBusMessage("lost", **property_))
            await abandoned.commit()
            async with client.get_queue_receiver(queue_name, max_wait_time=0) as receiver:
                (received,) = await receiver.receive_messages(10)
            assert (str(received), getattr(received, name)) == ("Hello", "myKey")

    run(main())


def test_a_scope_is_that_of_its_task(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Concurrent tasks are each in their own scope, or in none."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, max_wait_time=0) as receiver,
        ):
            ready = asyncio.Barrier(3)

            async def work(name: str, *, scoped: bool, completed: bool) -> None:
                txn = client.transaction()
                if not scoped:
                    await ready.wait()
                    await sender.send_messages(message(name))
                    return
                with txn.scope():
                    await ready.wait()
                    await sender.send_messages(message(name))
                    if completed:
                        txn.complete()
                await txn.commit()

            await asyncio.gather(
                work("beside", scoped=False, completed=False),
                work("kept", scoped=True, completed=True),
                work("lost", scoped=True, completed=False),
            )
            assert sorted(texts(await receiver.receive_messages(10))) == ["beside", "kept"]

    run(main())


def test_unsupported_operations_are_refused(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Cancelling and tables are refused in a scope, in whatever thread the call runs (B-240, B-307)."""

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            (number,) = await sender.schedule_messages(message("x"), clock.now() + timedelta(minutes=1))
            txn = client.transaction()
            with txn.scope():
                with pytest.raises(InvalidOperationError, match="transaction"):
                    await sender.cancel_scheduled_messages(number)
                with pytest.raises(InvalidOperationError, match="transaction"):
                    await sender.send_arrow(cast("Any", []))
            await txn.rollback()
            await sender.cancel_scheduled_messages(number)

    run(main())


def test_session_state(
    make_queue: Callable[..., str], run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """State, settlement and send of a session commit together (B-213, B-312)."""
    name = make_queue(requires_session=True)

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(name) as sender,
            client.get_queue_receiver(name, session_id="s", max_wait_time=0) as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("one", session_id="s"))
            (one,) = await receiver.receive_messages()
            session = receiver.session
            assert session is not None
            async with client.transaction() as txn:
                await session.set_state(b"new", transaction=txn)
                await receiver.complete_message(one, transaction=txn)
                await sender.send_messages(ServiceBusMessage("two", session_id="s"), transaction=txn)
                assert await session.get_state() is None
            assert await session.get_state() == b"new"
            assert texts(await receiver.receive_messages(10)) == ["two"]

    run(main())


def test_refusals_are_those_of_the_other_api(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Limits of messages and time, lost locks and finished transactions raise the same errors (B-318, B-319, B-327)."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, max_wait_time=0) as receiver,
        ):
            txn = client.transaction()
            await sender.send_messages([message("x")] * 100, transaction=txn)
            with pytest.raises(ServiceBusQuotaExceededError):
                await sender.send_messages(message("x"), transaction=txn)
            clock.advance(120)
            with pytest.raises(OperationTimeoutError):
                await txn.commit()
            for use in (txn.commit, txn.rollback):
                with pytest.raises(InvalidOperationError, match="already been discharged"):
                    await use()
            txn.begin()
            with pytest.raises(InvalidOperationError):
                txn.begin()
            await txn.rollback()
            await sender.send_messages(message("one"))
            (one,) = await receiver.receive_messages()
            txn.begin()
            await receiver.complete_message(one, transaction=txn)
            clock.advance(60)
            with pytest.raises(MessageLockLostError):
                await txn.commit()
            assert texts(await receiver.receive_messages()) == ["one"]

    run(main())


def test_topics(
    topic: str, subscribe: Callable[..., str], run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A copy is completed and its successor published in one transaction (B-323)."""
    subscribe("all")

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_topic_sender(topic) as sender,
            client.get_subscription_receiver(topic, "all", max_wait_time=0) as receiver,
        ):
            await sender.send_messages(message("one"))
            (one,) = await receiver.receive_messages()
            async with client.transaction(cross_entity=True) as txn:
                await receiver.complete_message(one, transaction=txn)
                await sender.send_messages(message("two"), transaction=txn)
            assert texts(await receiver.receive_messages(10)) == ["two"]

    run(main())
