# SPDX-License-Identifier: Apache-2.0
"""Sessions of the asyncio API: the same results, no threads while waiting, no loss on cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver, ServiceBusSession
from oxbus.exceptions import (
    AutoLockRenewTimeout,
    InvalidOperationError,
    MessageLockLostError,
    OperationTimeoutError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oxbus import Namespace
    from oxbus import ServiceBusClient as Threaded
    from oxbus.testing import ManualClock

LIVENESS_SECONDS = 60
LOCK = timedelta(minutes=1)
SHORT_LOCK_SECONDS = 3


@pytest.fixture
def queue_name(make_queue: Callable[..., str]) -> str:
    """A queue with sessions."""
    return make_queue(requires_session=True)


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in a new event loop, or fail if it hangs."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(main, LIVENESS_SECONDS))

    return run


async def send(client: ServiceBusClient, queue_name: str, session_id: str, *texts: str) -> None:
    """Send texts to a session, one by one."""
    async with client.get_queue_sender(queue_name) as sender:
        for text in texts:
            await sender.send_messages(ServiceBusMessage(text, session_id=session_id))


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session of a session receiver."""
    assert receiver.session is not None
    return receiver.session


async def until_waiting(task: asyncio.Task[Any]) -> None:
    """Let a task run until it waits; with a directory it makes calls in the thread pool first."""
    for _ in range(20):
        await asyncio.sleep(0.002)
    assert not task.done()


def test_a_session_from_end_to_end(
    queue_name: str, run: Callable[..., Any], clock: ManualClock, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Accept, receive in order, settle, defer, state, renew, list, close (B-192 to B-217)."""

    async def main() -> None:
        async with aio_client() as client:
            await send(client, queue_name, "a", "1", "2", "3", "4")
            async with client.get_queue_receiver(
                queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0
            ) as receiver:
                session = session_of(receiver)
                assert (session.session_id, session.locked_until_utc) == ("a", clock.now() + LOCK)
                assert [str(each) for each in await receiver.peek_messages(10)] == ["1", "2", "3", "4"]
                first, second = await receiver.receive_messages(2)
                await receiver.abandon_message(first)
                await receiver.defer_message(second)
                again, third = await receiver.receive_messages(2)
                assert [str(again), str(third)] == ["1", "3"]
                with pytest.raises(TypeError):
                    await receiver.renew_message_lock(again)
                await receiver.complete_messages([again, third])
                (deferred,) = await receiver.receive_deferred_messages(second.sequence_number)
                await receiver.dead_letter_message(deferred)
                assert await session.get_state() is None
                await session.set_state("half way")
                assert await session.get_state() == b"half way"
                clock.advance(30)
                assert await session.renew_lock() == clock.now() + LOCK
                assert [str(each) async for each in receiver] == ["4"]
            assert [each async for each in client.list_queue_sessions(queue_name)] == ["a"]
            (info,) = [each async for each in client.list_queue_sessions(queue_name, details=True)]
            assert (info.message_count, info.lock_owner) == (1, None)
            later = client.list_queue_sessions(queue_name, state_updated_after=clock.now())
            assert [each async for each in later] == []
            async with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
                assert [str(each) async for each in dead_letters] == ["2"]

    run(main())


def test_refusals(
    queue_name: str, run: Callable[..., Any], clock: ManualClock, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Errors for held, missing, lost and foreign sessions and for closed receivers (B-184 to B-203)."""

    async def main() -> None:
        async with aio_client() as client:

            def receiver_of(session_id: Any, **options: Any) -> ServiceBusReceiver:
                return client.get_queue_receiver(queue_name, session_id=session_id, max_wait_time=0, **options)

            with pytest.raises(OperationTimeoutError):
                await receiver_of(NEXT_AVAILABLE_SESSION).receive_messages()
            holder = receiver_of("a")
            assert session_of(holder).session_id is None
            assert await session_of(holder).get_state() is None
            assert session_of(holder).session_id == "a"
            with pytest.raises(SessionCannotBeLockedError):
                await receiver_of("a").receive_messages()
            with pytest.raises(InvalidOperationError, match="SessionId was not set"):
                await client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("x"))
            with pytest.raises(InvalidOperationError, match="non-sessionful"):
                await client.get_queue_receiver(queue_name).receive_messages(max_wait_time=0)
            await send(client, queue_name, "a", "1")
            (message,) = await holder.receive_messages()
            other = receiver_of("b")
            with pytest.raises(MessageLockLostError):
                await other.complete_message(message)
            clock.advance(61)
            for call in (
                lambda: holder.complete_message(message),
                holder.receive_messages,
                session_of(holder).renew_lock,
                session_of(holder).get_state,
                lambda: session_of(holder).set_state(b"x"),
            ):
                with pytest.raises(SessionLockLostError):
                    await call()
            await holder.close()
            with pytest.raises(ValueError, match="closed"):
                await session_of(holder).get_state()
            (again,) = await receiver_of("a").receive_messages()
            assert again.delivery_count == 1

    run(main())


def test_two_hundred_acceptors_wait_without_threads(
    namespace: Namespace,
    queue_name: str,
    client: Threaded,
    run: Callable[..., Any],
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """Two hundred receivers wait for a session in one loop; each session wakes one of them (B-196)."""
    count = 200

    async def main() -> None:
        async with aio_client() as waiting_client:
            before = threading.active_count()

            async def work() -> tuple[str | None, str]:
                async with waiting_client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) as receiver:
                    (message,) = await receiver.receive_messages()
                    await receiver.complete_message(message)
                    return session_of(receiver).session_id, str(message)

            tasks = [asyncio.create_task(work()) for _ in range(count)]
            await until_waiting(tasks[-1])
            in_pool = 0 if namespace._may_wait is False else 64
            assert threading.active_count() - before <= in_pool

            def send_all() -> None:
                with client.get_queue_sender(queue_name) as sender:
                    for number in range(count):
                        sender.send_messages(ServiceBusMessage(str(number), session_id=f"s{number}"))

            thread = threading.Thread(target=send_all)
            thread.start()
            got = await asyncio.gather(*tasks)
            thread.join()
            assert sorted(got) == sorted((f"s{number}", str(number)) for number in range(count))

    run(main())


def test_holders_are_woken_each_by_its_own_messages(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A message wakes only the holder of its session (B-132, B-200)."""

    async def main() -> None:
        async with aio_client() as client:
            tasks = {}
            for session_id in "abcd":
                receiver = client.get_queue_receiver(queue_name, session_id=session_id)
                tasks[session_id] = asyncio.create_task(receiver.receive_messages())
            await until_waiting(tasks["d"])
            for session_id in "cbda":
                await send(client, queue_name, session_id, session_id)
                (message,) = await tasks.pop(session_id)
                assert str(message) == session_id
                assert not any(task.done() for task in tasks.values())

    run(main())


def test_cancelled_accept_loses_nothing(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """The session goes to another waiting receiver, or to the same receiver later (B-197)."""

    async def main() -> None:
        async with aio_client() as client:
            for number in range(30):
                first, second = (
                    client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) for _ in range(2)
                )
                cancelled = asyncio.create_task(first.receive_messages())
                await asyncio.sleep(0.001 * (number % 5))
                waiting = asyncio.create_task(second.receive_messages())
                await asyncio.sleep(0)
                sending = asyncio.create_task(send(client, queue_name, f"s{number}", str(number)))
                await asyncio.sleep(0.001 * (number % 3))
                cancelled.cancel()
                (outcome,) = await asyncio.gather(cancelled, return_exceptions=True)
                await sending
                await first.close()
                if isinstance(outcome, list):
                    # It was accepted before the cancellation; closing released it.
                    assert [str(each) for each in outcome] == [str(number)]
                (message,) = await waiting
                assert (str(message), message.delivery_count) == (str(number), 0)
                await second.complete_message(message)
                await second.close()

    run(main())


def test_cancelled_receive_loses_nothing(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """The next receive returns the messages of a cancelled one, in order (B-207)."""

    async def main() -> None:
        async with aio_client() as client:
            receiver = client.get_queue_receiver(queue_name, session_id="a", max_wait_time=5)
            got: list[str] = []
            for number in range(30):
                task = asyncio.create_task(receiver.receive_messages())
                await asyncio.sleep(0.001 * (number % 3))
                sending = asyncio.create_task(send(client, queue_name, "a", str(number)))
                await asyncio.sleep(0.001 * (number % 4))
                task.cancel()
                (outcome,) = await asyncio.gather(task, return_exceptions=True)
                await sending
                messages = outcome if isinstance(outcome, list) else await receiver.receive_messages()
                got += map(str, messages)
                await receiver.complete_messages(messages)
            assert got == [str(number) for number in range(30)]

    run(main())


def test_cancelled_accept_can_be_tried_again(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """The same receiver can accept later (B-196)."""

    async def main() -> None:
        async with aio_client() as client:
            receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receiver.receive_messages(), 0.02)
            await send(client, queue_name, "a", "1")
            (message,) = await receiver.receive_messages()
            assert (str(message), session_of(receiver).session_id) == ("1", "a")

    run(main())


def test_calls_that_come_together_accept_once(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Several tasks may use a receiver before its session is accepted (B-192)."""

    async def main() -> None:
        async with aio_client() as client:
            await send(client, queue_name, "a", "1")
            for session_id in ("a", NEXT_AVAILABLE_SESSION):
                receiver = client.get_queue_receiver(queue_name, session_id=session_id, max_wait_time=5)
                session = session_of(receiver)
                state, again, peeked, messages = await asyncio.gather(
                    session.get_state(), session.get_state(), receiver.peek_messages(), receiver.receive_messages()
                )
                assert (state, again) == (None, None)
                assert [str(each) for each in [*peeked, *messages]] == ["1", "1"]
                await receiver.close()

    run(main())


def test_closing_ends_an_accept(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A receiver closed while it waits for a session accepts none (B-197)."""

    async def main() -> None:
        async with aio_client() as client:
            receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
            task = asyncio.create_task(receiver.receive_messages())
            await until_waiting(task)
            await receiver.close()
            with pytest.raises(ValueError, match="closed"):
                await task
            await send(client, queue_name, "a", "1")
            async with client.get_queue_receiver(
                queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0
            ) as other:
                assert [str(each) for each in await other.receive_messages()] == ["1"]

    run(main())


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode), ids=lambda mode: mode.name)
def test_renewer_keeps_the_session(
    open_namespace: Callable[..., Namespace], run: Callable[..., Any], mode: ServiceBusReceiveMode
) -> None:
    """A receiver with a renewer registers its session when it accepts it, in both modes (B-202)."""
    namespace = open_namespace()
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue("q", requires_session=True, lock_duration=timedelta(seconds=SHORT_LOCK_SECONDS))

    async def main() -> None:
        async with ServiceBusClient(namespace) as client, AutoLockRenewer() as renewer:
            await send(client, "q", "a", "1")
            receiver = client.get_queue_receiver("q", session_id="a", auto_lock_renewer=renewer, receive_mode=mode)
            (message,) = await receiver.receive_messages()
            await asyncio.sleep(2.5 * SHORT_LOCK_SECONDS)
            with pytest.raises(SessionCannotBeLockedError):
                await client.get_queue_receiver("q", session_id="a").receive_messages()
            if mode is ServiceBusReceiveMode.PEEK_LOCK:
                with pytest.raises(ValueError, match="session"):
                    renewer.register(receiver, message)
                await receiver.complete_message(message)
            assert session_of(receiver).auto_renew_error is None

    run(main())


def test_renewer_reports_when_it_ends(open_namespace: Callable[..., Namespace], run: Callable[..., Any]) -> None:
    """After the allowed time the session has the error, and its lock expires (B-203)."""
    namespace = open_namespace()
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue("q", requires_session=True, lock_duration=timedelta(seconds=SHORT_LOCK_SECONDS))

    async def main() -> None:
        async with (
            ServiceBusClient(namespace) as client,
            AutoLockRenewer(max_lock_renewal_duration=1.5) as renewer,
            client.get_queue_receiver("q", session_id="a", max_wait_time=0) as receiver,
        ):
            renewer.register(receiver, session_of(receiver))
            end = time.monotonic() + 60
            while session_of(receiver).auto_renew_error is None:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            assert isinstance(session_of(receiver).auto_renew_error, AutoLockRenewTimeout)
            await asyncio.sleep(SHORT_LOCK_SECONDS + 0.1)
            with pytest.raises(SessionLockLostError):
                await receiver.receive_messages()

    run(main())
