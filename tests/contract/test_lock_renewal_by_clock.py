# SPDX-License-Identifier: Apache-2.0
"""AutoLockRenewer follows the clock of the namespace, so its decisions can be tested without measuring time.

The clock only moves when a test moves it, and each step waits until the renewer has acted on it:
a busy machine makes these tests slow and never wrong.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import AutoLockRenewer, ServiceBusMessage
from oxbus.exceptions import AutoLockRenewTimeout, MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.testing import ManualClock

LOCK_SECONDS = 60.0


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for what the renewer's threads do, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def wait_for_lock_end(message: ServiceBusReceivedMessage, end: datetime) -> None:
    """Wait until the lock of a message ends at `end`, or fail."""
    wait_until(lambda: message.locked_until_utc == end)


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


def test_lock_is_renewed_ten_seconds_before_it_ends(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """Ten locks later the message is still ours and can be completed (B-152, B-154)."""
    message = take(receiver)
    with AutoLockRenewer(max_lock_renewal_duration=3600) as renewer:
        renewer.register(receiver, message)
        for _ in range(10):
            clock.advance(LOCK_SECONDS - 10)
            wait_for_lock_end(message, clock.now() + timedelta(seconds=LOCK_SECONDS))
        receiver.complete_message(message)
    assert message.auto_renew_error is None


def test_lock_is_not_renewed_before_it_is_due(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """With more than ten seconds left nothing happens (B-154)."""
    message = take(receiver)
    first = message.locked_until_utc
    with AutoLockRenewer() as renewer:
        renewer.register(receiver, message)
        clock.advance(LOCK_SECONDS - 11)
        time.sleep(0.6)
        assert message.locked_until_utc == first


def test_renewal_stops_when_the_allowed_time_is_over(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """The message says that the time is over, and its lock then ends as any other (B-157)."""
    message = take(receiver)
    with AutoLockRenewer(max_lock_renewal_duration=30) as renewer:
        renewer.register(receiver, message)
        clock.advance(30)
        wait_until(lambda: message.auto_renew_error is not None)
        assert isinstance(message.auto_renew_error, AutoLockRenewTimeout)
        clock.advance(LOCK_SECONDS)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)


def test_lock_that_ran_out_is_reported_without_an_error(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """When a lock ends before it could be renewed the callback gets the message and no error (B-157)."""
    message = take(receiver)
    calls: list[tuple[object, Exception | None]] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *call: calls.append(call)) as renewer:
        renewer.register(receiver, message)
        clock.advance(2 * LOCK_SECONDS)
        wait_until(lambda: bool(calls))
    assert calls == [(message, None)]


def test_thread_ends_with_the_last_lock(receiver: ServiceBusReceiver) -> None:
    """A renewer that has nothing left to renew keeps no watching thread, and starts one anew when it must (B-160)."""
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
    """A settled message has no lock to renew, and the error says so (B-160)."""
    message = take(receiver)
    receiver.complete_message(message)
    with AutoLockRenewer() as renewer, pytest.raises(ValueError, match="settled"):
        renewer.register(receiver, message)


def test_closed_receiver_ends_renewal(receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A lock whose receiver is closed is left alone, and nobody is told (B-157)."""
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
    """Closing from the callback does not wait for the callback itself (B-157)."""
    message = take(receiver)
    done = threading.Event()
    renewer = AutoLockRenewer()

    def give_up(_message: object, _error: Exception | None) -> None:
        renewer.close()
        done.set()

    renewer.register(receiver, message, on_lock_renew_failure=give_up)
    clock.advance(2 * LOCK_SECONDS)
    assert done.wait(20)
