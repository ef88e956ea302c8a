# SPDX-License-Identifier: Apache-2.0
"""AutoLockRenewer follows the clock of the namespace, so its decisions can be tested without measuring time.

The clock only moves when a test moves it, and due locks are renewed before `advance` returns.
A thread of the renewer calls callbacks; tests wait for them, so a busy machine slows tests but does not fail them.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import AutoLockRenewer, ServiceBusMessage
from oxbus.exceptions import AutoLockRenewTimeout, MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.testing import ManualClock

LOCK_SECONDS = 60.0


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until the renewer's threads make the condition true, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def receiver(client: ServiceBusClient, make_queue: Callable[..., str]) -> ServiceBusReceiver:
    """A receiver of a queue with one message and locks of a minute."""
    queue_name = make_queue(lock_duration=timedelta(seconds=LOCK_SECONDS))
    client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("one"))
    return client.get_queue_receiver(queue_name)


def take(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    """Receive the message."""
    (message,) = receiver.receive_messages(max_wait_time=0)
    return message


@pytest.mark.parametrize("step", [LOCK_SECONDS - 10, LOCK_SECONDS / 2, 7])
def test_lock_is_renewed_before_the_step_is_over(receiver: ServiceBusReceiver, clock: ManualClock, step: float) -> None:
    """After ten lock durations the message is still locked and can be completed (B-152, B-154).

    The renewer used to poll four times a second, too late for a test that moves the clock in steps.
    """
    message = take(receiver)
    first = message.locked_until_utc
    assert first is not None
    with AutoLockRenewer(max_lock_renewal_duration=3600) as renewer:
        renewer.register(receiver, message)
        while clock.now() < first + timedelta(seconds=10 * LOCK_SECONDS):
            clock.advance(step)
            assert message.locked_until_utc is not None
            assert message.locked_until_utc - clock.now() > timedelta(seconds=LOCK_SECONDS / 2)
        receiver.complete_message(message)
    assert message.auto_renew_error is None


def test_lock_is_not_renewed_before_it_is_due(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A lock with more than half of its duration left is not renewed (B-154)."""
    message = take(receiver)
    first = message.locked_until_utc
    with AutoLockRenewer() as renewer:
        renewer.register(receiver, message)
        clock.advance(LOCK_SECONDS / 2 - 1)
        time.sleep(0.6)
        assert message.locked_until_utc == first


def test_renewal_stops_when_the_allowed_time_is_over(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """The message has the timeout error, and its lock then expires (B-157)."""
    message = take(receiver)
    with AutoLockRenewer(max_lock_renewal_duration=30) as renewer:
        renewer.register(receiver, message)
        clock.advance(30)
        assert isinstance(message.auto_renew_error, AutoLockRenewTimeout)
        clock.advance(LOCK_SECONDS)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)


def test_lock_that_ran_out_is_reported_without_an_error(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """When a lock expires before it could be renewed, the callback gets the message and no error (B-157)."""
    message = take(receiver)
    calls: list[tuple[object, Exception | None]] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *call: calls.append(call)) as renewer:
        renewer.register(receiver, message)
        clock.advance(2 * LOCK_SECONDS)
        wait_until(lambda: bool(calls))
    assert calls == [(message, None)]


def test_thread_ends_with_the_last_lock(receiver: ServiceBusReceiver) -> None:
    """A renewer without locks has no thread, and starts a new one when needed (B-160)."""
    message = take(receiver)
    with AutoLockRenewer() as renewer:
        renewer.register(receiver, message)
        assert [thread for thread in threading.enumerate() if thread.name == "oxbus-lock-renewer"]
        receiver.abandon_message(message)
        wait_until(lambda: renewer._thread is None)
        message = take(receiver)
        renewer.register(receiver, message)
        assert renewer._thread is not None
        receiver.complete_message(message)
        wait_until(lambda: renewer._thread is None)


def test_settled_message_is_refused(receiver: ServiceBusReceiver) -> None:
    """Registering a settled message raises an error that names the reason (B-160)."""
    message = take(receiver)
    receiver.complete_message(message)
    with AutoLockRenewer() as renewer, pytest.raises(ValueError, match="settled"):
        renewer.register(receiver, message)


def test_closed_receiver_ends_renewal(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A lock of a closed receiver is not renewed, and the callback is not called (B-157)."""
    message = take(receiver)
    first = message.locked_until_utc
    calls: list[object] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *call: calls.append(call)) as renewer:
        renewer.register(receiver, message)
        receiver.close()
        wait_until(lambda: renewer._thread is None)
        clock.advance(LOCK_SECONDS - 5)
        assert message.locked_until_utc == first
    assert calls == []


def test_callback_may_close_the_renewer(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """Closing from the callback does not wait for that callback (B-157)."""
    message = take(receiver)
    done = threading.Event()
    renewer = AutoLockRenewer()

    def give_up(_message: object, _error: Exception | None) -> None:
        renewer.close()
        done.set()

    renewer.register(receiver, message, on_lock_renew_failure=give_up)
    clock.advance(2 * LOCK_SECONDS)
    assert done.wait(20)


def test_registered_locks_are_all_renewed(
    client: ServiceBusClient, make_queue: Callable[..., str], clock: ManualClock
) -> None:
    """A receiver registers all its received messages, and a session (B-154, B-202)."""
    queue = make_queue(lock_duration=timedelta(seconds=30))
    sessions = make_queue("sessions", lock_duration=timedelta(seconds=30), requires_session=True)
    client.get_queue_sender(queue).send_messages([ServiceBusMessage(str(n), partition_key="k") for n in range(3)])
    client.get_queue_sender(sessions).send_messages(ServiceBusMessage("x", session_id="s"))
    with (
        AutoLockRenewer() as renewer,
        client.get_queue_receiver(queue, auto_lock_renewer=renewer) as receiver,
        client.get_queue_receiver(sessions, session_id="s", auto_lock_renewer=renewer) as holder,
    ):
        messages = receiver.receive_messages(3, max_wait_time=0)
        for _ in range(5):
            clock.advance(16)
        end = clock.now() + timedelta(seconds=30)
        assert [message.locked_until_utc for message in messages] == [end] * 3
        assert holder.session is not None
        assert holder.session.locked_until_utc == end
        receiver.complete_messages(messages)


def test_callback_may_move_the_clock(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """The callback runs in another thread, so moving the clock there does not deadlock (B-157)."""
    message = take(receiver)
    done = threading.Event()
    guard = threading.Lock()

    def move(_message: object, _error: Exception | None) -> None:
        with guard:
            clock.advance(1)
        done.set()

    with AutoLockRenewer(max_workers=1) as renewer:
        renewer.register(receiver, message, on_lock_renew_failure=move)
        with guard:
            clock.advance(2 * LOCK_SECONDS)
        assert done.wait(20)


def test_clock_is_moved_in_the_pool_that_renews(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """The thread that moves the clock renews, so a pool with a single worker does not deadlock (B-154)."""
    message = take(receiver)
    with ThreadPoolExecutor(max_workers=1) as pool, AutoLockRenewer(executor=pool) as renewer:
        renewer.register(receiver, message)
        pool.submit(clock.advance, LOCK_SECONDS / 2).result(20)
        assert message.locked_until_utc == clock.now() + timedelta(seconds=LOCK_SECONDS)


def test_clock_moves_on_after_the_namespace(
    receiver: ServiceBusReceiver, namespace: Namespace, clock: ManualClock
) -> None:
    """The clock may be moved after its namespace was closed (B-157)."""
    message = take(receiver)
    with AutoLockRenewer() as renewer:
        renewer.register(receiver, message)
        namespace.close()
        clock.advance(LOCK_SECONDS / 2)
        clock.advance(LOCK_SECONDS)
        wait_until(lambda: renewer._thread is None)


def test_forgotten_renewer_is_not_called(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A clock does not keep a renewer alive, and a closed renewer renews nothing (B-157)."""
    message = take(receiver)
    first = message.locked_until_utc
    renewer = AutoLockRenewer()
    renewer.register(receiver, message)
    renewer.close()
    reference = weakref.ref(renewer._manual_renewals)
    del renewer
    gc.collect()
    assert reference() is None
    clock.advance(LOCK_SECONDS / 2)
    assert message.locked_until_utc == first


def test_threads_move_the_clock_at_once(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """Each thread finds the lock renewed after its own step (B-154)."""
    message = take(receiver)
    late: list[timedelta] = []

    def step() -> None:
        for _ in range(50):
            clock.advance(1)
            now = clock.now()  # before the end of the lock, which other threads move on
            assert message.locked_until_utc is not None
            left = message.locked_until_utc - now
            late.extend([left] * (left < timedelta(seconds=20)))

    with AutoLockRenewer(max_lock_renewal_duration=3600) as renewer:
        renewer.register(receiver, message)
        threads = [threading.Thread(target=step) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        receiver.complete_message(message)
    assert late == []
