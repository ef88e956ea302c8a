# SPDX-License-Identifier: Apache-2.0
"""AutoLockRenewer keeps message locks in the background, as in the SDK (B-152, B-154).

These tests use the system clock with locks of a second or two, because the renewer is a thread.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import (
    AutoLockRenewFailed,
    AutoLockRenewTimeout,
    MessageLockLostError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver

LOCK_SECONDS = 5
SEVERAL_LOCKS_SECONDS = 12
SESSION_LOCK_SECONDS = 3


@pytest.fixture
def running_namespace(open_namespace: Callable[..., Namespace]) -> Namespace:
    """A namespace on the system clock."""
    return open_namespace()


@pytest.fixture
def renewed_admin(running_namespace: Namespace) -> ServiceBusAdministrationClient:
    """An administration client of the namespace on the system clock, with a queue "q" of short locks."""
    admin = ServiceBusAdministrationClient(running_namespace)
    admin.create_queue("q", lock_duration=timedelta(seconds=LOCK_SECONDS), enable_partitioning=True)
    return admin


@pytest.fixture
def renewed_client(
    running_namespace: Namespace, renewed_admin: ServiceBusAdministrationClient
) -> Iterator[ServiceBusClient]:
    """A client of the namespace on the system clock, with five messages in "q"."""
    assert renewed_admin.get_queue("q").enable_partitioning
    with ServiceBusClient(running_namespace) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
        yield client


@pytest.fixture
def receiver(renewed_client: ServiceBusClient) -> ServiceBusReceiver:
    """A receiver of "q"."""
    return renewed_client.get_queue_receiver("q")


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until another thread makes the condition true, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_registered_message_stays_locked(receiver: ServiceBusReceiver) -> None:
    """A registered message can be completed long after its first lock would have ended (B-152)."""
    with AutoLockRenewer() as renewer:
        (message,) = receiver.receive_messages(max_wait_time=5)
        renewer.register(receiver, message)
        time.sleep(SEVERAL_LOCKS_SECONDS)
        receiver.complete_message(message)
    assert message.auto_renew_error is None


def test_receiver_registers_what_it_receives(renewed_client: ServiceBusClient) -> None:
    """A receiver with a renewer registers every message it returns (B-152)."""
    with (
        AutoLockRenewer() as renewer,
        renewed_client.get_queue_receiver("q", auto_lock_renewer=renewer) as receiver,
        renewed_client.get_queue_receiver("q") as other,
    ):
        messages: list[ServiceBusReceivedMessage] = []
        while len(messages) < 4:
            messages += receiver.receive_messages(max_message_count=4 - len(messages), max_wait_time=5)
        messages.append(next(receiver))
        time.sleep(SEVERAL_LOCKS_SECONDS)
        assert other.receive_messages(max_wait_time=0) == []
        receiver.complete_messages(messages)


def test_renewal_ends_after_its_time(receiver: ServiceBusReceiver) -> None:
    """After the maximum time the lock expires, and the message and the callback get the reason (B-157)."""
    failures: list[tuple[Any, Exception | None]] = []
    done = threading.Event()

    def on_failure(renewable: Any, error: Exception | None) -> None:
        failures.append((renewable, error))
        done.set()

    with AutoLockRenewer() as renewer:
        (message,) = receiver.receive_messages(max_wait_time=5)
        renewer.register(receiver, message, max_lock_renewal_duration=2, on_lock_renew_failure=on_failure)
        wait_until(lambda: message.auto_renew_error is not None)
        assert isinstance(message.auto_renew_error, AutoLockRenewTimeout)
        time.sleep(2 * LOCK_SECONDS)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)


def test_lost_lock_is_reported(receiver: ServiceBusReceiver, renewed_admin: ServiceBusAdministrationClient) -> None:
    """When a renewal fails, the message has the error and the callback gets both (B-155)."""
    failures: list[tuple[Any, Exception | None]] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *call: failures.append(call)) as renewer:
        (message,) = receiver.receive_messages(max_wait_time=5)
        renewer.register(receiver, message)
        renewed_admin.delete_queue("q")
        wait_until(lambda: bool(failures))
    ((renewable, error),) = failures
    assert renewable is message
    assert error is message.auto_renew_error
    assert error is None or isinstance(error, AutoLockRenewFailed)


@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead_letter"])
def test_settled_message_is_left_alone(receiver: ServiceBusReceiver, verb: str) -> None:
    """Settling a message ends its renewal without any report (B-160)."""
    failures: list[Any] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *call: failures.append(call)) as renewer:
        (message,) = receiver.receive_messages(max_wait_time=5)
        renewer.register(receiver, message)
        getattr(receiver, f"{verb}_message")(message)
        time.sleep(2 * LOCK_SECONDS)
    assert failures == []
    assert message.auto_renew_error is None


def test_closing_the_renewer_ends_renewal(receiver: ServiceBusReceiver) -> None:
    """After `close` locks expire, nothing can be registered, and closing again has no effect (B-157)."""
    renewer = AutoLockRenewer()
    (message,) = receiver.receive_messages(max_wait_time=5)
    renewer.register(receiver, message)
    renewer.close()
    renewer.close()
    with pytest.raises(ServiceBusError):
        renewer.register(receiver, message)
    with pytest.raises(ServiceBusError):
        renewer.__enter__()
    time.sleep(2 * LOCK_SECONDS)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)


def test_only_locked_messages_can_be_registered(receiver: ServiceBusReceiver, renewed_client: ServiceBusClient) -> None:
    """Peeked and receive-and-delete messages are a ValueError, other things a TypeError, as in the SDK (B-161)."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    nothing: Any = "message"
    with AutoLockRenewer() as renewer, renewed_client.get_queue_receiver("q", receive_mode=mode) as taker:
        for message in (*receiver.peek_messages(), *taker.receive_messages(max_wait_time=5)):
            with pytest.raises(ValueError, match="PEEK_LOCK"):
                renewer.register(receiver, message)
        with pytest.raises(TypeError):
            renewer.register(receiver, nothing)


def test_no_thread_before_the_first_message() -> None:
    """A renewer starts no thread until something is registered (api: AutoLockRenewer)."""
    before = threading.active_count()
    renewer = AutoLockRenewer()
    assert threading.active_count() == before
    renewer.close()


@pytest.fixture
def sessions(renewed_client: ServiceBusClient, renewed_admin: ServiceBusAdministrationClient) -> str:
    """A queue with sessions and short locks, with two messages in session "a"."""
    renewed_admin.create_queue("s", requires_session=True, lock_duration=timedelta(seconds=SESSION_LOCK_SECONDS))
    with renewed_client.get_queue_sender("s") as sender:
        sender.send_messages([ServiceBusMessage(text, session_id="a") for text in "12"])
    return "s"


def test_registered_session_stays_locked(renewed_client: ServiceBusClient, sessions: str) -> None:
    """A registered session and its received messages stay locked long after the first lock would have ended (B-202)."""
    with (
        AutoLockRenewer() as renewer,
        renewed_client.get_queue_receiver(sessions, session_id="a", max_wait_time=5) as receiver,
    ):
        session = receiver.session
        assert session is not None
        renewer.register(receiver, session)
        (message,) = receiver.receive_messages()
        time.sleep(2.5 * SESSION_LOCK_SECONDS)
        with (
            pytest.raises(SessionCannotBeLockedError),
            renewed_client.get_queue_receiver(sessions, session_id="a", max_wait_time=0),
        ):
            pass
        receiver.complete_message(message)
        assert session.auto_renew_error is None


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("first_use", ["enter", "receive", "peek", "arrow", "session", "deferred"])
def test_receiver_registers_its_session(
    renewed_client: ServiceBusClient, sessions: str, first_use: str, mode: ServiceBusReceiveMode
) -> None:
    """A receiver with a renewer registers its session, not the messages, however it is first used (B-202)."""
    registered: list[object] = []

    class Renewer(AutoLockRenewer):
        def register(self, receiver: object, renewable: object, *_: object, **__: object) -> None:
            assert receiver is made
            registered.append(renewable)

    made = renewed_client.get_queue_receiver(
        sessions, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0, auto_lock_renewer=Renewer(), receive_mode=mode
    )
    uses: dict[str, Callable[[], object]] = {
        "enter": made.__enter__,
        "receive": made.receive_messages,
        "peek": made.peek_messages,
        "arrow": made.receive_arrow,
        "session": lambda: made.session,
        "deferred": lambda: made.receive_deferred_messages([]),
    }
    uses[first_use]()
    assert registered == [made.session]
    made.receive_messages()
    assert registered == [made.session]
    made.close()


def test_lost_session_is_reported(renewed_client: ServiceBusClient, sessions: str) -> None:
    """When renewal ends, the session has the reason, and the lock expires (B-203)."""
    reported = threading.Event()
    with (
        AutoLockRenewer(max_lock_renewal_duration=1.5) as renewer,
        renewed_client.get_queue_receiver(sessions, session_id="a", max_wait_time=5) as receiver,
    ):
        session = receiver.session
        assert session is not None
        renewer.register(receiver, session, on_lock_renew_failure=lambda *_: reported.set())
        wait_until(lambda: session.auto_renew_error is not None)
        assert isinstance(session.auto_renew_error, AutoLockRenewTimeout)
        time.sleep(SESSION_LOCK_SECONDS + 0.1)
        with pytest.raises(SessionLockLostError):
            receiver.receive_messages()
    assert not reported.is_set()


def test_message_of_a_session_is_not_registered(renewed_client: ServiceBusClient, sessions: str) -> None:
    """Messages of a session are not registered, since they have no own lock (B-156)."""
    with (
        AutoLockRenewer() as renewer,
        renewed_client.get_queue_receiver(sessions, session_id="a", max_wait_time=5) as receiver,
    ):
        (message,) = receiver.receive_messages()
        with pytest.raises(ValueError, match="session"):
            renewer.register(receiver, message)
        receiver.complete_message(message)
