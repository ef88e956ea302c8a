# SPDX-License-Identifier: Apache-2.0
"""The asyncio API: the same results as the synchronous one, no threads while waiting, no loss on cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusMessage, ServiceBusReceiveMode
from oxbus._oxbus import _WakeUps
from oxbus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusSession, _calls
from oxbus.aio.management import ServiceBusAdministrationClient
from oxbus.exceptions import AutoLockRenewTimeout, MessageLockLostError, MessagingEntityNotFoundError, ServiceBusError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from oxbus import ServiceBusReceivedMessage
    from oxbus.testing import ManualClock

LIVENESS_SECONDS = 60


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in a new event loop, or fail if it hangs."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(main, LIVENESS_SECONDS))

    return run


async def until_waiting(task: asyncio.Task[Any]) -> None:
    """Let a task run until it waits; with a directory it makes calls in the thread pool first."""
    for _ in range(20):
        await asyncio.sleep(0.002)
    assert not task.done()


def test_messages_go_through(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient], clock: ManualClock
) -> None:
    """Send, receive, settle in every way, defer, peek and schedule, as with the synchronous API."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, max_wait_time=0) as receiver,
        ):
            batch = await sender.create_message_batch()
            batch.add_message(ServiceBusMessage("3", partition_key="k"))
            await sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(3)])
            await sender.send_messages(batch)
            await sender.send_messages(ServiceBusMessage("4", partition_key="k"))
            assert [str(each) for each in await receiver.peek_messages(10)] == ["0", "1", "2", "3", "4"]
            messages = await receiver.receive_messages(10)
            assert [str(each) for each in messages] == ["0", "1", "2", "3", "4"]
            await receiver.complete_message(messages[0])
            await receiver.abandon_message(messages[1], properties_to_modify={"n": 1})
            await receiver.defer_message(messages[2])
            await receiver.dead_letter_message(messages[3], "reason", error_description="description")
            assert await receiver.renew_message_lock(messages[4]) == messages[4].locked_until_utc
            (deferred,) = await receiver.receive_deferred_messages(messages[2].sequence_number)
            await receiver.complete_messages([messages[4], deferred])
            (again,) = [each async for each in receiver]
            assert (str(again), again.delivery_count, again.application_properties) == ("1", 1, {"n": 1})
            await receiver.complete_message(again)
            async with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
                (dead,) = await dead_letters.receive_messages(10)
                assert (str(dead), dead.dead_letter_reason) == ("3", "reason")
                await dead_letters.complete_message(dead)
            due = clock.now() + timedelta(days=1)
            numbers = await sender.schedule_messages(ServiceBusMessage("later", partition_key="k"), due)
            await sender.cancel_scheduled_messages(numbers)
            assert await receiver.peek_messages(10, sequence_number=1) == []

    run(main())


def test_a_waiting_receive_wakes_when_a_message_comes(
    namespace: Namespace, queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Also when a thread without an event loop sends it (B-132)."""

    async def main() -> None:
        async with aio_client() as client, client.get_queue_receiver(queue_name) as receiver:
            for number in range(20):
                waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
                await until_waiting(waiting)
                with oxbus.ServiceBusClient(namespace) as other:
                    thread = threading.Thread(
                        target=other.get_queue_sender(queue_name).send_messages, args=(ServiceBusMessage(str(number)),)
                    )
                    thread.start()
                    (message,) = await waiting
                    thread.join()
                assert str(message) == str(number)
                await receiver.complete_message(message)

    run(main())


def test_a_wait_ends_without_a_message(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A wait returns nothing after its time, at once for 0; iteration ends; a negative wait is refused."""

    async def main() -> None:
        async with aio_client() as client:
            receiver = client.get_queue_receiver(queue_name, max_wait_time=0.01)
            assert await receiver.receive_messages(max_wait_time=0) == []
            assert await receiver.receive_messages() == []
            assert [each async for each in receiver] == []
            with pytest.raises(ValueError, match="max_wait_time cannot be negative"):
                await receiver.receive_messages(max_wait_time=-1)
            with pytest.raises(ValueError, match="max_message_count"):
                await receiver.receive_messages(0, max_wait_time=0)

    run(main())


def test_a_thousand_receivers_wait_in_one_thread(
    namespace: Namespace, queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Each of a thousand messages wakes one of a thousand receivers, and no thread is created."""
    threads = threading.active_count()

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            receivers = [client.get_queue_receiver(queue_name) for _ in range(1000)]
            waiting = [asyncio.create_task(each.receive_messages(max_wait_time=LIVENESS_SECONDS)) for each in receivers]
            for _ in range(5):
                await asyncio.sleep(0.01)
            # Calls that may wait for a disk run in the event loop's thread pool, those to a store in one of their own.
            pool_max = _calls.THREADS_IN_STORE_MAX if namespace._is_in_store else 40 if namespace._may_wait else 0
            assert threading.active_count() <= threads + pool_max
            for number in range(1000):
                await sender.send_messages(ServiceBusMessage(str(number)))
            received = await asyncio.gather(*waiting)
            assert sorted(int(str(message)) for messages in received for message in messages) == list(range(1000))

    run(main())


@pytest.mark.parametrize("turn_ms", [0, _calls.TURN_MS])
def test_a_canceled_receive_loses_nothing(
    queue_name: str,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    turn_ms: int,
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """Whenever it is cancelled, each message is delivered once, and no delivery is counted for the cancellation.

    With turns of no length it may also be cancelled while other tasks run first.
    """
    monkeypatch.setattr(_calls, "TURN_MS", turn_ms)

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name) as receiver,
        ):
            taken: list[ServiceBusReceivedMessage] = []
            for number in range(100):
                waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                await sender.send_messages(ServiceBusMessage(str(number)))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                waiting.cancel()
                (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
                if not isinstance(outcome, BaseException):
                    taken += outcome
            while len(taken) < 100:
                taken += await receiver.receive_messages(50, max_wait_time=LIVENESS_SECONDS)
            assert sorted(int(str(message)) for message in taken) == list(range(100))
            assert {message.delivery_count for message in taken} == {0}
            await receiver.complete_messages(taken)

    run(main())


def test_calls_that_do_not_wait_let_other_tasks_run(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A task that sends, receives and completes without a wait does not keep the others from running."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name) as receiver,
        ):
            other = asyncio.create_task(asyncio.sleep(0))
            end = time.monotonic() + LIVENESS_SECONDS / 2
            while not other.done() and time.monotonic() < end:
                await sender.send_messages(ServiceBusMessage("x"))
                for message in await receiver.receive_messages(max_wait_time=0):
                    await receiver.complete_message(message)
            assert other.done()

    run(main())


def test_a_call_uses_a_thread_only_if_it_may_wait(
    namespace: Namespace,
    queue_name: str,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """In memory, and at `os`, it does not; it does for a sync, and once a store may hang."""
    monkeypatch.setattr(_calls, "TURN_MS", 1000 * LIVENESS_SECONDS)

    async def main() -> int:
        loop, client = asyncio.get_running_loop(), aio_client()
        sender, receiver = client.get_queue_sender(queue_name), client.get_queue_receiver(queue_name)
        in_threads = 0
        run_in_executor = loop.run_in_executor

        def counted(*call: Any) -> Any:
            nonlocal in_threads
            in_threads += 1
            return run_in_executor(*call)

        monkeypatch.setattr(loop, "run_in_executor", counted)

        async def cycle() -> None:
            await sender.send_messages([ServiceBusMessage("x", partition_key="k") for _ in range(3)])
            first, *others = await receiver.receive_messages(3)
            await receiver.complete_message(first)
            await receiver.complete_messages(others)

        await cycle()
        assert in_threads == 0
        if sender.last_durability == "os":
            await sender.send_messages(ServiceBusMessage("x"), durability="fsync")
            assert in_threads == 1
            await receiver.receive_messages()
        in_threads = 0
        inject_fault(namespace, 0, "stall")
        heal(namespace, 0)
        while namespace.partition_health()[0].status != "healthy":  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)
        await cycle()
        return in_threads

    assert run(main()) == 4


def test_each_call_after_a_turn_lets_other_tasks_run_first(
    queue_name: str,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """With turns of no length, other tasks run during each call."""
    monkeypatch.setattr(_calls, "TURN_MS", 0)
    ran: list[None] = []

    async def others() -> None:
        while True:
            ran.append(None)
            await asyncio.sleep(0)

    async def during(call: Coroutine[Any, Any, Any]) -> Any:
        before = len(ran)
        result = await call
        assert len(ran) > before
        return result

    async def main() -> None:
        task = asyncio.create_task(others())
        client = aio_client()
        sender, receiver = client.get_queue_sender(queue_name), client.get_queue_receiver(queue_name)
        await during(sender.send_messages([ServiceBusMessage("x", partition_key="k") for _ in range(3)]))
        assert len(await during(receiver.peek_messages(3))) == 3
        first, *others_received = await during(receiver.receive_messages(3))
        await during(receiver.complete_message(first))
        await during(receiver.complete_messages(others_received))
        assert await during(receiver.receive_messages(max_wait_time=0)) == []
        task.cancel()

    run(main())


def test_a_notification_of_a_canceled_receive_goes_to_the_next(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A receiver is notified and cancelled before it retries; another one gets the message."""

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            first, second = (
                asyncio.create_task(client.get_queue_receiver(queue_name).receive_messages(max_wait_time=None))
                for _ in range(2)
            )
            await until_waiting(first)
            await until_waiting(second)
            await sender.send_messages(ServiceBusMessage("x"))
            first.cancel()
            await asyncio.wait((first,))
            # It may have received the message before it was cancelled.
            messages = await second if first.cancelled() else first.result()
            assert [str(message) for message in messages] == ["x"]
            second.cancel()

    run(main())


def test_a_wait_canceled_during_a_step_leaves_no_waiter(
    namespace: Namespace, queue_name: str, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A thread may register a waiter after its task was cancelled; that waiter is removed at once (B-135)."""
    sender, wake_ups = namespace._sender(queue_name), _WakeUps()
    with aio_client().get_queue_receiver(queue_name)._receiver as receiver:
        left, staying = wake_ups.waiter(1, None), wake_ups.waiter(2, None)
        left.cancel()
        for waiter in (left, staying):
            assert isinstance(receiver._receive_or_wait(1, waiter), float)
        sender.send_messages(ServiceBusMessage("x"))
        assert wake_ups.drain() == [2]
        messages = receiver._receive_or_wait(1, staying)
        assert not isinstance(messages, float)
        assert [str(message) for message in messages] == ["x"]


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_messages_of_a_canceled_receive_go_to_the_next(
    queue_name: str, run: Callable[..., Any], mode: ServiceBusReceiveMode, aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Locked messages are released without counting a delivery; received-and-deleted ones go to the next (B-177)."""

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            await sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
            receiver = client.get_queue_receiver(queue_name, receive_mode=mode)
            receiver._requeue(await receiver.receive_messages(2, max_wait_time=0))
            if mode is ServiceBusReceiveMode.RECEIVE_AND_DELETE:
                await sender.send_messages(ServiceBusMessage("later"))
            other = client.get_queue_receiver(queue_name, receive_mode=mode)
            taker = other if mode is ServiceBusReceiveMode.PEEK_LOCK else receiver
            messages = [(await taker.receive_messages(max_wait_time=1))[0] for _ in range(2)]
            assert [(str(message), message.delivery_count) for message in messages] == [("x", 0), ("y", 0)]

    run(main())


@pytest.mark.parametrize("ending", ["receiver", "client", "namespace", "queue"])
def test_a_waiting_receive_ends_when_it_cannot_succeed(
    namespace: Namespace,
    queue_name: str,
    run: Callable[..., Any],
    ending: str,
    aio_client: Callable[[], ServiceBusClient],
) -> None:
    """Closing the receiver, client or namespace, or deleting the queue, ends the wait; the error names the cause."""

    async def main() -> None:
        client = aio_client()
        receiver = client.get_queue_receiver(queue_name)
        waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
        await until_waiting(waiting)
        if ending == "queue":
            await ServiceBusAdministrationClient(namespace).delete_queue(queue_name)
        elif ending == "namespace":
            namespace.close()
        elif ending == "receiver":
            await receiver.close()
        else:
            await client.close()
        with pytest.raises((ValueError, ServiceBusError)):
            await waiting

    run(main())


def test_an_expired_lock_and_a_due_schedule_end_a_wait(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """The clock moves during the wait (B-150, B-232)."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name) as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("x"))
            (first,) = await receiver.receive_messages(max_wait_time=0)
            waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
            await until_waiting(waiting)
            clock.advance(61)
            (again,) = await waiting
            assert again.delivery_count == 1
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(first)
            await receiver.complete_message(again)
            await sender.schedule_messages(ServiceBusMessage("due"), clock.now() + timedelta(seconds=30))
            waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=None))
            await until_waiting(waiting)
            clock.advance(30)
            (due,) = await waiting
            assert str(due) == "due"
            await receiver.complete_message(due)

    run(main())


def test_receive_and_delete(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Received messages are removed and cannot be settled."""

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
        ):
            await sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
            messages = await receiver.receive_messages(5, max_wait_time=1)
            assert [str(each) for each in messages] == ["x", "y"]
            with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
                await receiver.complete_message(messages[0])
            assert await receiver.peek_messages() == []

    run(main())


def test_tables(queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]) -> None:
    """Arrow tables are sent, waited for, received and settled."""
    pa = pytest.importorskip("pyarrow")

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name) as receiver,
        ):
            waiting = asyncio.create_task(receiver.receive_arrow(100, max_wait_time=None))
            await until_waiting(waiting)
            table = pa.table({"body": [b"a", b"b"], "partition_key": ["k", "k"]})
            assert sum((await sender.send_arrow(table)).values()) == 2
            received = await waiting
            assert pa.table(received)["body"].to_pylist() == [b"a", b"b"]
            await receiver.settle_arrow(received, "complete")
            assert len(await receiver.receive_arrow(10, max_wait_time=0)) == 0

    run(main())


def _seconds_left(message: ServiceBusReceivedMessage, clock: ManualClock) -> float:
    """Seconds until a lock ends."""
    assert message.locked_until_utc is not None
    return (message.locked_until_utc - clock.now()).total_seconds()


def test_locks_are_renewed(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A registered lock is renewed until the renewer's time is over (B-154).

    It is renewed before `advance` returns, whether called in the event loop or in another thread.
    """
    lost: list[tuple[str, Exception | None]] = []

    async def on_failure(message: ServiceBusReceivedMessage | ServiceBusSession, error: Exception | None) -> None:
        lost.append((str(message), error))

    async def main() -> None:
        async with (
            aio_client() as client,
            client.get_queue_sender(queue_name) as sender,
            AutoLockRenewer(max_lock_renewal_duration=130, on_lock_renew_failure=on_failure) as renewer,
            client.get_queue_receiver(queue_name, auto_lock_renewer=renewer) as receiver,
        ):
            await sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
            renewed, expired = await receiver.receive_messages(2, max_wait_time=1)
            for _ in range(5):
                clock.advance(10)
                await asyncio.to_thread(clock.advance, 10)
                assert all(_seconds_left(message, clock) > 30 for message in (renewed, expired))
            await receiver.complete_message(renewed)
            clock.advance(40)
            assert isinstance(expired.auto_renew_error, AutoLockRenewTimeout)
            assert lost == []
            with pytest.raises(TypeError, match="ServiceBusReceivedMessage"):
                renewer.register(receiver, object())  # type: ignore[arg-type] # refused
            with pytest.raises(ValueError, match="no lock"):
                renewer.register(receiver, renewed)
        with pytest.raises(ServiceBusError, match="closed"):
            renewer.register(receiver, expired)

    run(main())


def test_a_lost_lock_is_reported(
    queue_name: str, clock: ManualClock, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """A lock that ran out before it could be renewed is reported to the callback, without an error."""
    reported = asyncio.Event()

    async def on_failure(message: ServiceBusReceivedMessage | ServiceBusSession, error: Exception | None) -> None:
        assert (str(message), error) == ("x", None)
        reported.set()

    async def main() -> None:
        async with aio_client() as client, client.get_queue_sender(queue_name) as sender:
            receiver = client.get_queue_receiver(queue_name)
            await sender.send_messages(ServiceBusMessage("x"))
            (message,) = await receiver.receive_messages(max_wait_time=1)
            renewer = AutoLockRenewer()
            renewer.register(receiver, message, on_lock_renew_failure=on_failure)
            clock.advance(70)
            await reported.wait()
            await renewer.close()

    run(main())


def test_refusals_are_those_of_the_other_api(
    queue_name: str, run: Callable[..., Any], aio_client: Callable[[], ServiceBusClient]
) -> None:
    """Unknown queues and closed handles raise the errors of the synchronous API."""

    async def main() -> None:
        client = aio_client()
        with pytest.raises(MessagingEntityNotFoundError):
            await client.get_queue_sender("nowhere").send_messages(ServiceBusMessage("x"))
        with pytest.raises(MessagingEntityNotFoundError):
            await client.get_queue_receiver("nowhere").receive_messages(max_wait_time=0)
        sender = client.get_queue_sender(queue_name)
        await client.close()
        with pytest.raises(ValueError, match="closed"):
            await sender.send_messages(ServiceBusMessage("x"))
        with pytest.raises(ValueError, match="closed"):
            client.get_queue_sender(queue_name)

    run(main())


def test_queues_are_managed(namespace: Namespace, run: Callable[..., Any]) -> None:
    """Created, listed by item and by page, changed, counted and deleted."""

    async def main() -> None:
        async with ServiceBusAdministrationClient(namespace) as admin:
            for number in range(120):
                await admin.create_queue(f"q{number:03}", max_delivery_count=3)
            assert len([queue async for queue in admin.list_queues()]) == 120
            assert [len(page) async for page in admin.list_queues().by_page()] == [100, 20]
            queue = await admin.get_queue("q007")
            queue.max_delivery_count = 5
            await admin.update_queue(queue)
            assert (await admin.get_queue("q007")).max_delivery_count == 5
            assert (await admin.get_queue_runtime_properties("q007")).total_message_count == 0
            assert len([each async for each in admin.list_queues_runtime_properties()]) == 120
            await admin.delete_queue("q007")
            with pytest.raises(MessagingEntityNotFoundError):
                await admin.get_queue("q007")
            assert (await admin.get_namespace_properties()).name

    run(main())


def test_connection_strings(tmp_path: Path, run: Callable[..., Any]) -> None:
    """The clients open the namespace that a connection string names."""

    async def main() -> None:
        conn_str = f"Endpoint=file://{tmp_path / 'bus'}"
        await ServiceBusAdministrationClient.from_connection_string(conn_str).create_queue("q")
        async with ServiceBusClient.from_connection_string(f"{conn_str};EntityPath=q") as client:
            await client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
            (message,) = await client.get_queue_receiver("q").receive_messages(max_wait_time=5)
            assert str(message) == "x"
            with pytest.raises(ValueError, match="another entity"):
                client.get_queue_sender("other")

    run(main())
