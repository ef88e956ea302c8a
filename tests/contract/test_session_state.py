# SPDX-License-Identifier: Apache-2.0
"""Session state and the list of sessions (B-186, B-210 to B-216, R-15)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusQuotaExceededError,
    SessionLockLostError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import ServiceBusClient, ServiceBusReceiver, ServiceBusSession
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

LOCK = timedelta(minutes=1)


@pytest.fixture
def queue_name(make_queue: Callable[..., str]) -> str:
    """A queue with sessions."""
    return make_queue(requires_session=True)


@pytest.fixture
def send(client: ServiceBusClient, queue_name: str) -> Callable[..., None]:
    """Send texts to a session, one by one."""

    def send(session_id: str, *texts: str) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, session_id=session_id))

    return send


@pytest.fixture
def accept(client: ServiceBusClient, queue_name: str) -> Iterator[Callable[..., ServiceBusReceiver]]:
    """Accept a session without waiting; all are closed when the test ends."""
    receivers = []

    def accept(session_id: Any = "a", **options: Any) -> ServiceBusReceiver:
        receiver = client.get_queue_receiver(queue_name, session_id=session_id, max_wait_time=0, **options)
        receivers.append(receiver)
        return receiver.__enter__()

    yield accept
    for receiver in receivers:
        receiver.close()


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session of a session receiver."""
    assert receiver.session is not None
    return receiver.session


STATES: list[tuple[Any, bytes | None]] = [
    (b"bytes", b"bytes"),
    (bytearray(b"array"), b"array"),
    ("schlüssel 鍵", "schlüssel 鍵".encode()),
    (b"", b""),
    ("", b""),
    (b"\x00\xff", b"\x00\xff"),
    (None, None),
]


@pytest.mark.parametrize(("state", "shown"), STATES, ids=repr)
def test_state_comes_back(accept: Callable[..., ServiceBusReceiver], state: Any, shown: bytes | None) -> None:
    """A state is read as bytes, whatever type it was set from; empty differs from None (B-210, B-211)."""
    session = session_of(accept())
    assert session.get_state() is None
    session.set_state(b"something else")
    session.set_state(state)
    assert session.get_state() == shown


@pytest.mark.parametrize("state", [7, ["x"], {"a": 1}, 1.5], ids=repr)
def test_state_of_another_type_is_refused(accept: Callable[..., ServiceBusReceiver], state: Any) -> None:
    """A state of another type is a TypeError and changes nothing (B-210)."""
    session = session_of(accept())
    session.set_state(b"kept")
    with pytest.raises(TypeError, match="state"):
        session.set_state(state)
    assert session.get_state() == b"kept"


def test_none_clears_the_state(
    accept: Callable[..., ServiceBusReceiver], client: ServiceBusClient, queue_name: str
) -> None:
    """Setting the state to None clears it (B-186, B-211)."""
    session = session_of(accept())
    session.set_state(b"x")
    session.set_state(None)
    assert session.get_state() is None
    assert list(client.list_queue_sessions(queue_name)) == []


def test_state_outlives_messages_and_holders(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """The state survives completion of the messages, closing and loss of the lock (B-211, R-15)."""
    send("a", "x")
    receiver = accept()
    session_of(receiver).set_state(b"kept")
    receiver.complete_messages(receiver.receive_messages())
    receiver.close()
    receiver = accept()
    assert session_of(receiver).get_state() == b"kept"
    clock.advance(61)
    assert session_of(accept()).get_state() == b"kept"
    assert session_of(accept("b")).get_state() is None


def test_state_needs_the_lock(accept: Callable[..., ServiceBusReceiver], clock: ManualClock) -> None:
    """After losing the session a receiver can neither read nor set its state (B-203, B-212)."""
    old = session_of(accept())
    old.set_state(b"old")
    clock.advance(61)
    new = session_of(accept())
    new.set_state(b"new")
    for call in (old.get_state, lambda: old.set_state(b"late"), lambda: old.set_state(None)):
        with pytest.raises(SessionLockLostError):
            call()
    assert new.get_state() == b"new"


def test_state_of_a_closed_receiver(accept: Callable[..., ServiceBusReceiver]) -> None:
    """A closed receiver has no session (B-204)."""
    receiver = accept()
    session = session_of(receiver)
    receiver.close()
    for call in (session.get_state, lambda: session.set_state(b"x"), session.renew_lock):
        with pytest.raises(ValueError, match="closed"):
            call()


@pytest.mark.parametrize("timeout", [0, -1])
def test_timeouts_are_positive(accept: Callable[..., ServiceBusReceiver], timeout: float) -> None:
    """A timeout of zero or less is refused as in the SDK (B-212)."""
    session = session_of(accept())
    for call in (session.get_state, lambda *, timeout: session.set_state(b"x", timeout=timeout), session.renew_lock):
        with pytest.raises(ValueError, match="timeout"):
            call(timeout=timeout)
    assert session.get_state(timeout=5) is None


def test_largest_state(client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
    """The size limit of a state is that of a message (B-210)."""
    name = make_queue("small", requires_session=True, max_message_size_in_kilobytes=1)
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        session = session_of(receiver)
        session.set_state(b"x" * 1024)
        with pytest.raises(ValueError, match=r"(?i)state"):
            session.set_state(b"y" * 1025)
        assert session.get_state() == b"x" * 1024


def test_states_count_toward_the_size_of_the_queue(client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
    """States count toward the size of the queue; clearing them frees space (B-211)."""
    name = make_queue("full", requires_session=True, max_size_in_megabytes=1)
    large = b"x" * 900_000
    with (
        client.get_queue_sender(name) as sender,
        client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver,
    ):
        session = session_of(receiver)
        session.set_state(large)
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(large, session_id="a"))
        session.set_state(None)
        sender.send_messages(ServiceBusMessage(large, session_id="a"))
        with pytest.raises(ServiceBusQuotaExceededError):
            session.set_state(large)
        assert session.get_state() is None
        receiver.complete_messages(receiver.receive_messages())
        session.set_state(large)


def test_state_can_be_set_again_in_a_full_queue(client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
    """A state replaces the previous one, so setting it repeatedly does not fill the queue (B-210, B-211)."""
    name = make_queue("full", requires_session=True, max_size_in_megabytes=1)
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        session = session_of(receiver)
        for number in range(20):
            session.set_state(bytes([number]) * 600_000)
        assert session.get_state() == b"\x13" * 600_000


# The list of sessions


def test_list(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """The list has sessions with active messages or a state, by id, but not empty held ones (B-186, B-214)."""
    assert list(client.list_queue_sessions(queue_name)) == []
    for session_id in ("b", "a", "", "done"):
        send(session_id, "x")
    accept("held")
    receiver = accept("done")
    receiver.complete_messages(receiver.receive_messages())
    session_of(accept("stateful")).set_state(b"x")
    assert list(client.list_queue_sessions(queue_name)) == ["", "a", "b", "stateful"]


def test_list_by_time_of_the_state(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """With a time, the list has the sessions whose state was set after it (B-215)."""
    start = clock.now()
    for session_id in "ab":
        clock.advance(10)
        receiver = accept(session_id)
        session_of(receiver).set_state(b"x")
    send("messages only", "x")

    def after(seconds: float) -> list[str]:
        time = start + timedelta(seconds=seconds)
        assert list(client.list_queue_sessions(queue_name, state_updated_after=time.replace(tzinfo=None))) == list(
            client.list_queue_sessions(queue_name, state_updated_after=time)
        )
        return list(client.list_queue_sessions(queue_name, state_updated_after=time))

    assert (after(0), after(10), after(20)) == (["a", "b"], ["b"], [])
    clock.advance(10)
    session_of(accept("c")).set_state(b"x")
    assert after(20) == ["c"]


def test_deferred_messages_do_not_make_a_session(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """Sessions that have only deferred or scheduled messages are not listed (B-216)."""
    send("a", "x")
    receiver = accept("a")
    (message,) = receiver.receive_messages()
    assert list(client.list_queue_sessions(queue_name)) == ["a"]
    receiver.defer_message(message)
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("x", session_id="b"), clock.now() + timedelta(seconds=30))
    assert list(client.list_queue_sessions(queue_name)) == []
    clock.advance(30)
    assert list(client.list_queue_sessions(queue_name)) == ["b"]


def test_list_in_pages(client: ServiceBusClient, queue_name: str, send: Callable[..., None]) -> None:
    """Pages hold a hundred ids (B-215)."""
    for number in range(250):
        send(f"s{number:03}", "x")
    pages = [list(page) for page in client.list_queue_sessions(queue_name).by_page()]
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [session for page in pages for session in page] == [f"s{number:03}" for number in range(250)]


def test_details(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
    partitioned: bool,
) -> None:
    """Details have each session's messages, their age, the state's time and the holder (B-214)."""
    send("a", "1", "2", "3")
    clock.advance(30)
    send("a", "4")
    receiver = accept("a", client_identifier="worker-7")
    first, *_ = receiver.receive_messages(2)
    session_of(receiver).set_state(b"x")
    (info,) = client.list_queue_sessions(queue_name, details=True)
    assert info.session_id == "a"
    assert info.partition_id == (oxbus.partition_id("a") if partitioned else None)
    assert (info.message_count, info.oldest_message_age) == (4, timedelta(seconds=30))
    assert info.state_updated_at_utc == clock.now()
    assert (info.lock_owner, info.locked_until_utc) == ("worker-7", clock.now() + LOCK)
    receiver.complete_message(first)
    receiver.close()
    (info,) = client.list_queue_sessions(queue_name, details=True)
    assert (info.message_count, info.lock_owner, info.locked_until_utc) == (3, None, None)


def test_holder_of_an_expired_lock_is_not_listed(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """A session with an expired lock has no holder (B-203)."""
    send("a", "1")
    accept("a")
    clock.advance(61)
    (info,) = client.list_queue_sessions(queue_name, details=True)
    assert (info.lock_owner, info.locked_until_utc, info.message_count) == (None, None, 1)


def test_list_refusals(client: ServiceBusClient, queue_name: str) -> None:
    """An unknown queue, a closed client and a timeout of zero are refused (B-214)."""
    with pytest.raises(MessagingEntityNotFoundError):
        list(client.list_queue_sessions("nowhere"))
    with pytest.raises(ValueError, match="timeout"):
        client.list_queue_sessions(queue_name, timeout=0)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.list_queue_sessions(queue_name)


def test_state_of_a_deleted_queue_is_gone(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
) -> None:
    """A new queue of the same name has no sessions (B-021, B-186)."""
    session_of(accept("a")).set_state(b"x")
    admin.delete_queue(queue_name)
    admin.create_queue(queue_name, requires_session=True)
    assert list(client.list_queue_sessions(queue_name)) == []
    with pytest.raises(OperationTimeoutError):
        accept(NEXT_AVAILABLE_SESSION)
    assert session_of(accept("a")).get_state() is None
