# SPDX-License-Identifier: Apache-2.0
"""Sessions: accepting, order, locks, refusals, fairness (B-181 to B-209, B-217, R-07, R-10)."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSession
from oxbus.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    PartitionUnavailableError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

LOCK = timedelta(minutes=1)
PAST_THE_LOCK = 61


@pytest.fixture
def queue_name(make_queue: Callable[..., str]) -> str:
    """A queue with sessions."""
    return make_queue(requires_session=True)


@pytest.fixture
def send(client: ServiceBusClient) -> Callable[..., None]:
    """Send texts to a session, one by one."""

    def send(session_id: str, *texts: str, queue_name: str = "orders", **options: Any) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, session_id=session_id, **options))

    return send


@pytest.fixture
def accept(client: ServiceBusClient, queue_name: str) -> Iterator[Callable[..., ServiceBusReceiver]]:
    """Accept a session without waiting; all are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def accept(session_id: Any = NEXT_AVAILABLE_SESSION, **options: Any) -> ServiceBusReceiver:
            options = {"max_wait_time": 0} | options
            receiver = client.get_queue_receiver(queue_name, session_id=session_id, **options)
            return stack.enter_context(receiver)

        yield accept


@pytest.fixture
def accept_all(accept: Callable[..., ServiceBusReceiver]) -> Callable[[], set[str | None]]:
    """Accept every session that is available and give them back; their ids."""

    def accept_all() -> set[str | None]:
        receivers = []
        with contextlib.suppress(OperationTimeoutError):
            while True:
                receivers.append(accept())
        found = {id_of(receiver) for receiver in receivers}
        assert len(found) == len(receivers)
        for receiver in receivers:
            receiver.close()
        return found

    return accept_all


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session of a receiver that has one."""
    assert receiver.session is not None
    return receiver.session


def id_of(receiver: ServiceBusReceiver) -> str | None:
    """The id of its session."""
    return session_of(receiver).session_id


def take(receiver: ServiceBusReceiver, count: int = 100) -> list[ServiceBusReceivedMessage]:
    """Receive what is there."""
    return receiver.receive_messages(max_message_count=count, max_wait_time=0)


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies."""
    return [str(message) for message in messages]


# Accepting


def test_accept_by_id(client: ServiceBusClient, queue_name: str, send: Callable[..., None], clock: ManualClock) -> None:
    """A receiver accepts the session that it names and sees its messages only (B-192, B-200, B-201)."""
    send("a", "a1", "a2")
    send("b", "b1")
    with client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0) as receiver:
        session = session_of(receiver)
        assert (session.session_id, session.locked_until_utc) == ("a", clock.now() + LOCK)
        messages = take(receiver)
        assert texts(messages) == ["a1", "a2"]
        assert {message.session_id for message in messages} == {"a"}
        for message in messages:
            receiver.complete_message(message)
        assert list(receiver) == []


def test_receiver_accepts_at_its_first_use(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """Making a receiver locks nothing; using it does, also by its session (B-192)."""
    lazy = client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0)
    accept("a").close()
    assert session_of(lazy).session_id == "a"
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    lazy.close()
    accept("a")


@pytest.mark.parametrize("session_id", ["nobody", "", "ü" * 128])
def test_accept_an_empty_session(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], session_id: str
) -> None:
    """A session without messages is accepted by id, and what comes later is its holder's (B-183, B-193, B-200)."""
    receiver = accept(session_id)
    assert take(receiver) == []
    send(session_id, "late")
    (message,) = take(receiver)
    assert (str(message), message.session_id) == ("late", session_id)
    with pytest.raises(OperationTimeoutError):
        accept()


def test_empty_id_is_an_id(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], accept_all: Callable[[], set[str | None]]
) -> None:
    """The empty text is a session like others, for accept-next too (B-183)."""
    send("", "x")
    send("a", "y")
    assert accept_all() == {"", "a"}
    assert texts(take(accept(""))) == ["x"]


@pytest.mark.parametrize("session_id", ["x" * 129, 7, b"a", ["a"]], ids=repr)
def test_bad_session_id(client: ServiceBusClient, queue_name: str, session_id: Any) -> None:
    """An id is text of at most 128 characters (B-182)."""
    with (
        pytest.raises((TypeError, ValueError)),
        client.get_queue_receiver(queue_name, session_id=session_id, max_wait_time=0),
    ):
        pass


def test_held_session_cannot_be_accepted(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """A second receiver is refused with the service's words until the lock ends (B-194)."""
    send("a", "x")
    accept("a")
    with pytest.raises(SessionCannotBeLockedError, match="requested session 'a' cannot be accepted") as refusal:
        accept("a")
    assert refusal.value.condition == "com.microsoft:session-cannot-be-locked"
    with pytest.raises(OperationTimeoutError):
        accept()
    clock.advance(PAST_THE_LOCK)
    assert texts(take(accept("a"))) == ["x"]


def test_accept_next(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Each session with a message is handed out once, and the receiver tells which it is (B-195, B-199)."""
    for session_id in "abc":
        send(session_id, f"{session_id}1", f"{session_id}2")
    receivers = [accept() for _ in range(3)]
    assert {id_of(receiver) for receiver in receivers} == set("abc")
    for receiver in receivers:
        assert texts(take(receiver)) == [f"{id_of(receiver)}1", f"{id_of(receiver)}2"]
    with pytest.raises(OperationTimeoutError):
        accept()


def test_no_session_is_a_timeout(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A wait that ends without a session raises, and locks nothing that appears later (B-196, B-197)."""
    with pytest.raises(OperationTimeoutError) as refusal:
        accept(max_wait_time=0.05)
    assert refusal.value.condition == "com.microsoft:timeout"
    lazy = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
    with pytest.raises(OperationTimeoutError):
        lazy.receive_messages()
    send("a", "x")
    with accept("a") as receiver:
        assert texts(take(receiver)) == ["x"]
    # The receiver that came too early may try again.
    assert texts(take(lazy)) == ["x"]
    lazy.close()


def test_accept_waits(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """Without a session accept-next waits until there is one (B-196)."""

    def work() -> list[str]:
        with client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            return texts(receiver.receive_messages())

    waiting = in_background(work)
    time.sleep(0.05)
    assert waiting.running
    send("a", "x")
    assert waiting.result() == ["x"]


def test_what_has_nothing_to_receive_is_not_handed_out(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """Only deferred, scheduled or settled messages: accept-next passes by, accept by id does not (B-198)."""
    send("deferred", "d")
    receiver = accept("deferred")
    (deferred,) = take(receiver)
    receiver.defer_message(deferred)
    receiver.close()
    send("done", "x")
    receiver = accept("done")
    receiver.complete_message(take(receiver)[0])
    receiver.close()
    send("gone", "x", time_to_live=timedelta(seconds=5))
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("s", session_id="scheduled"), clock.now() + timedelta(seconds=30))
    clock.advance(10)
    with pytest.raises(OperationTimeoutError):
        accept()
    assert texts(accept("deferred").receive_deferred_messages(deferred.sequence_number)) == ["d"]
    clock.advance(30)
    assert id_of(accept()) == "scheduled"


def test_options_that_are_refused_lock_nothing(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """A receiver that cannot be made does not keep its session (B-192)."""
    with (
        pytest.raises(ValueError, match="partition"),
        client.get_queue_receiver(queue_name, session_id="a", max_wait_time=0, partition_id=60),
    ):
        pass
    with pytest.raises(ValueError, match="sub-queue"):
        client.get_queue_receiver(queue_name, session_id="a", sub_queue="deadletter")
    accept("a")


def test_closing_ends_an_accept_that_waits(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    in_background: Callable[..., Any],
) -> None:
    """A receiver that is closed while it waits for a session accepts none (B-197)."""
    receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    waiting = in_background(receiver.receive_messages)
    time.sleep(0.05)
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        waiting.result()
    send("a", "x")
    assert id_of(accept()) == "a"


# Order


def test_messages_come_in_their_order(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Messages of a session come in the order they were sent, several in flight at once (B-123, B-207, R-07)."""
    for number in range(50):
        send("a", f"a{number}")
        send("b", f"b{number}")
    receiver = accept("a")
    messages = []
    while batch := take(receiver, 7):
        messages += batch
    assert texts(messages) == [f"a{number}" for number in range(50)]
    # Settled in any order.
    for message in reversed(messages):
        receiver.complete_message(message)
    assert take(receiver) == []


def test_abandoned_message_is_the_next_one(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """An abandoned message is served next, with one more delivery, before those that came after it (B-207)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    first, second = take(receiver, 2)
    receiver.abandon_message(first, properties_to_modify={"tried": 1})
    (again,) = take(receiver, 1)
    assert (str(again), again.delivery_count, again.application_properties) == ("1", 1, {"tried": 1})
    receiver.abandon_message(second)
    receiver.abandon_message(again)
    messages = take(receiver)
    assert [(str(message), message.delivery_count) for message in messages] == [("1", 2), ("2", 1), ("3", 0)]
    receiver.complete_messages(messages)


def test_too_many_deliveries_go_to_the_dead_letters(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None]
) -> None:
    """A message abandoned too often leaves its session; the following one is served (B-178, B-190, B-208)."""
    make_queue("strict", requires_session=True, max_delivery_count=2)
    send("a", "bad", "good", queue_name="strict")
    with client.get_queue_receiver("strict", session_id="a", max_wait_time=0) as receiver:
        for _ in range(2):
            receiver.abandon_message(take(receiver, 1)[0])
        assert texts(take(receiver)) == ["good"]
    with client.get_queue_receiver("strict", sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.session_id, dead.delivery_count) == ("bad", "a", 2)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        dead_letters.complete_message(dead)


def test_dead_lettered_and_deferred_messages_leave_the_flow(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """Delivery goes on behind them; resubmitted, a dead letter is behind what came later (B-190, B-208, B-272)."""
    send("a", "1", "2", "3", "4")
    receiver = accept("a")
    first, second = take(receiver, 2)
    receiver.dead_letter_message(first, "reason", "description")
    receiver.defer_message(second)
    (third,) = take(receiver, 1)
    assert str(third) == "3"
    receiver.complete_message(third)
    with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.session_id, dead.dead_letter_reason) == ("1", "a", "reason")
        send("a", str(dead))
        dead_letters.complete_message(dead)
    assert texts(take(receiver)) == ["4", "1"]
    (fetched,) = receiver.receive_deferred_messages(second.sequence_number)
    assert (str(fetched), fetched.delivery_count) == ("2", 1)
    receiver.complete_message(fetched)


def test_dead_letters_are_never_sessionful(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """One receiver without a session reads the dead letters of all sessions (B-190)."""
    for session_id in "abc":
        send(session_id, session_id)
        receiver = accept(session_id)
        receiver.dead_letter_message(take(receiver)[0])
    with client.get_queue_receiver(queue_name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert sorted(texts([message for message in dead_letters])) == ["a", "b", "c"]  # noqa: C416


def test_scheduled_message_arrives_in_a_held_session(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
) -> None:
    """What comes due belongs to the holder, behind what was there (B-112, B-200)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("later", session_id="a"), clock.now() + timedelta(seconds=30))
    send("a", "now")
    receiver = accept("a")
    assert texts(take(receiver)) == ["now"]
    clock.advance(30)
    with pytest.raises(OperationTimeoutError):
        accept()
    assert texts(take(receiver)) == ["later"]


def test_cancelled_schedule_never_arrives(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], clock: ManualClock
) -> None:
    """A scheduled message of a session can be cancelled (B-238)."""
    with client.get_queue_sender(queue_name) as sender:
        numbers = sender.schedule_messages(ServiceBusMessage("x", session_id="a"), clock.now() + timedelta(seconds=30))
        sender.cancel_scheduled_messages(numbers)
    clock.advance(60)
    with pytest.raises(OperationTimeoutError):
        accept()


# Locks


def test_close_gives_back_without_a_charge(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """Close releases at once; what was not settled is there in its order, as before (B-176, B-205)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    messages = take(receiver, 2)
    receiver.complete_message(messages[0])
    receiver.close()
    again = take(accept())
    assert [(str(message), message.delivery_count) for message in again] == [("2", 0), ("3", 0)]


def test_settled_after_close_is_refused(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Whoever closed holds nothing: the handle says so, and the next holder's messages are safe (B-204, B-205)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        receiver.complete_message(message)
    with pytest.raises(ValueError, match="closed"):
        receiver.receive_messages()
    other = accept("a")
    with pytest.raises((MessageLockLostError, SessionLockLostError)):
        other.complete_message(message)
    assert texts(take(other)) == ["1"]


def test_lapsed_lock_is_charged(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """The end of the lock raises the delivery count of what was received, and of nothing else (B-206)."""
    send("a", "1", "2", "3")
    receiver = accept("a")
    take(receiver, 2)
    clock.advance(PAST_THE_LOCK)
    again = take(accept("a"))
    assert [(str(message), message.delivery_count) for message in again] == [("1", 1), ("2", 1), ("3", 0)]


def test_close_after_the_lock_lapsed_is_charged(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """A session that was lost cannot be given back: the delivery counts (B-206)."""
    send("a", "1")
    receiver = accept("a")
    take(receiver)
    clock.advance(PAST_THE_LOCK)
    receiver.close()
    (again,) = take(accept())
    assert again.delivery_count == 1


def test_lapses_end_in_the_dead_letters(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None], clock: ManualClock
) -> None:
    """A session lost as often as deliveries are allowed dead-letters what was in flight (B-178, B-206)."""
    make_queue("strict", requires_session=True, max_delivery_count=2)
    send("a", "bad", "good", queue_name="strict")
    for _ in range(2):
        receiver = client.get_queue_receiver("strict", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0)
        assert texts(take(receiver, 1)) == ["bad"]
        clock.advance(PAST_THE_LOCK)
    with client.get_queue_receiver("strict", session_id="a", max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["good"]
    with client.get_queue_receiver("strict", sub_queue="deadletter", max_wait_time=0) as dead_letters:
        (dead,) = take(dead_letters)
        assert (str(dead), dead.dead_letter_reason) == ("bad", "MaxDeliveryCountExceeded")


def test_messages_have_no_lock_of_their_own(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """The session's lock is the umbrella: a message shows no end, and renewing it is refused (B-156, B-200, B-202)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    assert message.locked_until_utc is None
    with pytest.raises(TypeError, match="session"):
        receiver.renew_message_lock(message)
    receiver.complete_message(message)


def test_renewal_holds_messages_too(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """A renewed session is held one lock duration from then on, and so is what was received (B-202)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    session = session_of(receiver)
    for _ in range(5):
        clock.advance(50)
        assert session.renew_lock() == session.locked_until_utc == clock.now() + LOCK
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    receiver.complete_message(message)


def test_lock_duration_is_the_queues(
    client: ServiceBusClient, make_queue: Callable[..., str], clock: ManualClock
) -> None:
    """The session is locked as long as the queue says (B-201)."""
    name = make_queue("quick", requires_session=True, lock_duration=timedelta(seconds=5))
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        assert session_of(receiver).locked_until_utc == clock.now() + timedelta(seconds=5)
        clock.advance(5)
        with client.get_queue_receiver(name, session_id="a", max_wait_time=0):
            pass


def test_lost_session(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock) -> None:
    """Receive, settle, renew and state fail with session-lock-lost, before and after another one accepts (B-203)."""
    send("a", "1", "2", "3", "4", "5", "6")
    receiver = accept("a")
    messages = take(receiver, 5)
    session = session_of(receiver)
    clock.advance(PAST_THE_LOCK)
    for _ in range(2):
        calls: list[Callable[[], object]] = [
            lambda: receiver.receive_messages(max_wait_time=0),
            lambda: receiver.receive_messages(max_wait_time=5),
            lambda: receiver.complete_message(messages[0]),
            lambda: receiver.abandon_message(messages[1]),
            lambda: receiver.defer_message(messages[2]),
            lambda: receiver.dead_letter_message(messages[3]),
            lambda: receiver.complete_messages(messages),
            lambda: receiver.receive_deferred_messages(1),
            session.renew_lock,
            session.get_state,
            lambda: session.set_state(b"stale"),
        ]
        for call in calls:
            with pytest.raises(SessionLockLostError) as refusal:
                call()
            assert refusal.value.condition == "com.microsoft:session-lock-lost"
        other = accept("a")
        assert session_of(other).get_state() is None
        assert len(take(other)) == 6
        other.close()


def test_receive_that_waits_learns_of_the_loss(
    accept: Callable[..., ServiceBusReceiver], clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A holder that waits for a message is told when its lock ends (B-203)."""
    receiver = accept("a")
    waiting = in_background(receiver.receive_messages, max_wait_time=60)
    time.sleep(0.05)
    clock.advance(PAST_THE_LOCK)
    with pytest.raises(SessionLockLostError):
        waiting.result()


def test_message_of_another_session_cannot_be_settled(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A holder settles messages of its own session only (B-200)."""
    send("a", "a1")
    send("b", "b1")
    of_a, of_b = accept("a"), accept("b")
    (message,) = take(of_a)
    take(of_b)
    for settle in (of_b.complete_message, of_b.abandon_message, of_b.defer_message, of_b.dead_letter_message):
        with pytest.raises(MessageLockLostError):
            settle(message)
    with pytest.raises(MessageLockLostError):
        of_b.complete_messages([message])
    of_a.complete_message(message)


def test_deferred_message_belongs_to_its_session(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """Only the holder of its session fetches a deferred message, and its lock is the session's (B-276, B-278)."""
    send("a", "1", "2")
    receiver = accept("a")
    numbers = [message.sequence_number for message in take(receiver)]
    for message in receiver.peek_messages(10):
        assert message.session_id == "a"
    receiver.close()
    receiver = accept("a")
    for message in take(receiver):
        receiver.defer_message(message)
    with pytest.raises((MessageNotFoundError, InvalidOperationError)):
        accept("b").receive_deferred_messages(numbers)
    first, second = receiver.receive_deferred_messages(numbers)
    assert (texts([first, second]), first.locked_until_utc) == (["1", "2"], None)
    clock.advance(50)
    session_of(receiver).renew_lock()
    clock.advance(50)
    receiver.complete_message(first)
    # Given back with the session, it is deferred as before.
    receiver.close()
    receiver = accept("a")
    (second,) = receiver.receive_deferred_messages(numbers[1])
    receiver.complete_message(second)


def test_deferred_message_of_a_lost_session_stays_deferred(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], clock: ManualClock
) -> None:
    """The end of the session's lock ends the lock of a fetched message: it can be fetched again (B-206, B-276)."""
    send("a", "1")
    receiver = accept("a")
    (message,) = take(receiver)
    receiver.defer_message(message)
    receiver.receive_deferred_messages(message.sequence_number)
    clock.advance(PAST_THE_LOCK)
    with pytest.raises(OperationTimeoutError):
        accept()
    other = accept("a")
    (fetched,) = other.receive_deferred_messages(message.sequence_number)
    other.complete_message(fetched)


# Refusals


def test_send_without_a_session_is_refused(
    client: ServiceBusClient, queue_name: str, snapshot: Callable[[str], object], clock: ManualClock
) -> None:
    """No way of sending takes a message without session id, and nothing of it is stored (B-184)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("kept", session_id="a"))
        before = snapshot(queue_name)
        bare = ServiceBusMessage("bare")
        in_session = ServiceBusMessage("x", session_id="a")
        batch = sender.create_message_batch()
        with contextlib.suppress(InvalidOperationError):
            batch.add_message(bare)
        calls: list[Callable[[], object]] = [
            lambda: sender.send_messages(bare),
            lambda: sender.send_messages([bare]),
            lambda: sender.send_messages([in_session, bare]),
            lambda: sender.send_messages([bare, in_session]),
            lambda: sender.schedule_messages(bare, clock.now() + timedelta(hours=1)),
            lambda: sender.schedule_messages([in_session, bare], clock.now() + timedelta(hours=1)),
            lambda: sender.send_messages(ServiceBusMessage("x", partition_key="a")),
        ]
        if len(batch):
            calls.append(lambda: sender.send_messages(batch))
        for call in calls:
            with pytest.raises(InvalidOperationError):
                call()
            assert snapshot(queue_name) == before
        with pytest.raises(InvalidOperationError, match="The SessionId was not set on a message"):
            sender.send_messages(bare)


def test_arrow_without_sessions_is_refused(
    client: ServiceBusClient, queue_name: str, snapshot: Callable[[str], object]
) -> None:
    """A table with a row without session id is refused, and nothing of it is stored (B-184)."""
    pa = pytest.importorskip("pyarrow")
    tables = [
        pa.table({"body": [b"1", b"2"]}),
        pa.table({"body": [b"1", b"2"], "session_id": pa.array(["a", None])}),
        pa.table({"body": [b"1", b"2"], "session_id": pa.array([None, "b"])}),
    ]
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender:
        for table in tables:
            with pytest.raises(ServiceBusError, match="SessionId was not set"):
                sender.send_arrow(table)
            assert snapshot(queue_name) == before


def test_arrow_with_sessions(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver]
) -> None:
    """Rows go to their sessions in their order, and come out and are settled as tables (B-189, B-207)."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(
        {"body": [str(n).encode() for n in range(300)], "session_id": [f"s{n % 3}" for n in range(300)]},
        schema=pa.schema({"body": pa.binary(), "session_id": pa.string()}),
    )
    with client.get_queue_sender(queue_name) as sender:
        sender.send_arrow(table)
    for _ in range(3):
        receiver = accept()
        got = pa.table(receiver.receive_arrow(max_message_count=1000, max_wait_time=0))
        session_id = id_of(receiver)
        assert session_id is not None
        start = int(session_id[1:])
        assert got["body"].to_pylist() == [str(n).encode() for n in range(start, 300, 3)]
        assert set(got["session_id"].to_pylist()) == {session_id}
        assert got["locked_until_utc"].null_count == 100
        receiver.settle_arrow(got, "complete")
        assert take(receiver) == []
        receiver.close()
    with pytest.raises(OperationTimeoutError):
        accept()


def test_arrow_of_another_session_cannot_be_settled(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A table of messages is settled by the holder of their session only (B-200)."""
    pa = pytest.importorskip("pyarrow")
    send("a", "1")
    of_a, of_b = accept("a"), accept("b")
    table = pa.table(of_a.receive_arrow(max_message_count=10, max_wait_time=0))
    for outcome in ("complete", "abandon", "defer", "dead_letter"):
        with pytest.raises(MessageLockLostError):
            of_b.settle_arrow(table, outcome)
    of_a.settle_arrow(table, "complete")


def test_receiver_without_a_session_is_refused(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], snapshot: Callable[[str], object]
) -> None:
    """A queue with sessions is received from by session only (B-181, B-187)."""
    send("a", "x")
    before = snapshot(queue_name)
    for mode in ServiceBusReceiveMode:
        with client.get_queue_receiver(queue_name, receive_mode=mode, max_wait_time=0) as receiver:
            calls: list[Callable[[], object]] = [
                receiver.receive_messages,
                lambda receiver=receiver: next(receiver),  # type: ignore[misc]
                receiver.receive_arrow,
                lambda receiver=receiver: receiver.receive_deferred_messages(1),  # type: ignore[misc]
            ]
            for call in calls:
                with pytest.raises(InvalidOperationError, match="non-sessionful message receiver"):
                    call()
    assert snapshot(queue_name) == before


def test_session_receiver_needs_a_queue_with_sessions(
    client: ServiceBusClient, make_queue: Callable[..., str], snapshot: Callable[[str], object]
) -> None:
    """A queue without sessions refuses a session receiver, and listing too (B-188)."""
    name = make_queue("bare")
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="a"))
    before = snapshot(name)
    for session_id in ("a", NEXT_AVAILABLE_SESSION):
        with (
            pytest.raises(InvalidOperationError, match="does not require sessions"),
            client.get_queue_receiver(name, session_id=session_id, max_wait_time=0),
        ):
            pass
    with pytest.raises(InvalidOperationError, match="does not require sessions"):
        list(client.list_queue_sessions(name))
    assert snapshot(name) == before
    with client.get_queue_receiver(name, max_wait_time=0) as receiver:
        assert receiver.session is None
        assert texts(take(receiver)) == ["x"]


def test_requires_session_is_fixed(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """Sessions are chosen at creation (B-181)."""
    queue = admin.get_queue(queue_name)
    assert queue.requires_session is True
    queue.requires_session = False
    with pytest.raises(InvalidOperationError, match="requires_session"):
        admin.update_queue(queue)
    assert admin.get_queue(queue_name).requires_session is True


def test_deleted_queue_wakes_who_waits(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    in_background: Callable[..., Any],
) -> None:
    """Holders and those who wait for a session learn that the queue is gone (B-019)."""
    holder = accept("a")
    receiving = in_background(holder.receive_messages, max_wait_time=60)
    other = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    accepting = in_background(other.receive_messages)
    time.sleep(0.05)
    admin.delete_queue(queue_name)
    for waiting in (receiving, accepting):
        with pytest.raises(MessagingEntityNotFoundError):
            waiting.result()


# With other features


def test_receive_and_delete(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Messages are gone as they are received, in order; the session is held all the same (B-146, B-200)."""
    send("a", "1", "2", "3")
    receiver = accept("a", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
    first, second = take(receiver, 2)
    assert texts([first, second]) == ["1", "2"]
    with pytest.raises(SessionCannotBeLockedError):
        accept("a")
    with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
        receiver.complete_message(first)
    receiver.close()
    assert texts(take(accept("a"))) == ["3"]


def test_prefetch(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """A receiver that prefetches keeps the order and gives back what it did not hand out (B-205, B-207)."""
    send("a", *(str(number) for number in range(20)))
    receiver = accept("a", prefetch_count=10)
    assert texts(take(receiver, 1)) == ["0"]
    receiver.close()
    messages = take(accept("a"))
    assert texts(messages) == [str(number) for number in range(20)]
    assert {message.delivery_count for message in messages} == {0}


def test_duplicates_in_sessions(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None], partitioned: bool
) -> None:
    """A copy in the same session is dropped; in another one, only without partitions (B-221, B-222)."""
    name = make_queue("once", requires_session=True, requires_duplicate_detection=True)
    send("a", "1", "2", queue_name=name, message_id="same")
    send("b", "3", queue_name=name, message_id="same")
    kept = {}
    for session_id in "ab":
        with client.get_queue_receiver(name, session_id=session_id, max_wait_time=0) as receiver:
            kept[session_id] = texts(take(receiver))
    assert kept == {"a": ["1"], "b": ["3"] if partitioned else []}


def test_whole_session_is_in_one_partition(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], partitioned: bool
) -> None:
    """The session id is the key (B-063, B-071, B-189)."""
    for number in range(20):
        send(f"s{number}", *"abc")
    with client.get_queue_receiver(queue_name) as browser:
        messages = browser.peek_messages(100)
    assert len(messages) == 60
    for message in messages:
        assert message.session_id is not None
        assert message.partition_id == (oxbus.partition_id(message.session_id) if partitioned else None)


def test_batches_of_sessions(
    client: ServiceBusClient,
    queue_name: str,
    partitioned: bool,
    snapshot: Callable[[str], object],
    accept_all: Callable[[], set[str | None]],
) -> None:
    """A list with several sessions is refused whole by a partitioned queue, and taken by another one (B-080, B-084)."""
    messages = [ServiceBusMessage(text, session_id=text) for text in ("a", "b", "c")]
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender:
        if partitioned:
            with pytest.raises(InvalidOperationError):
                sender.send_messages(messages)
            assert snapshot(queue_name) == before
        else:
            sender.send_messages(messages)
            assert accept_all() == set("abc")


def test_peek(
    client: ServiceBusClient, queue_name: str, accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A session receiver browses its session, another one all sessions, without a lock (B-217, B-302)."""
    for number in range(5):
        for session_id in "abc":
            send(session_id, f"{session_id}{number}")
    holder = accept("b")
    assert texts(holder.peek_messages(3)) == ["b0", "b1", "b2"]
    assert texts(holder.peek_messages(10)) == ["b3", "b4"]
    assert holder.peek_messages(10) == []
    assert texts(holder.peek_messages(10, sequence_number=1)) == [f"b{number}" for number in range(5)]
    with client.get_queue_receiver(queue_name) as browser:
        seen = []
        while batch := browser.peek_messages(4):
            seen += texts(batch)
    assert Counter(seen) == Counter(f"{session_id}{number}" for session_id in "abc" for number in range(5))
    assert len(take(holder)) == 5


def test_counts(
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
) -> None:
    """Messages of sessions count as those of any queue, whether received or not (B-389)."""
    send("a", "1", "2", "3")
    send("b", "4")
    receiver = accept("a")

    def counts() -> tuple[int | None, ...]:
        runtime = admin.get_queue_runtime_properties(queue_name)
        return (runtime.active_message_count, runtime.locked_message_count, runtime.deferred_message_count)

    assert counts()[:2] == (4, 0)
    first, second = take(receiver, 2)
    assert counts()[:2] == (4, 2)
    receiver.complete_message(first)
    receiver.defer_message(second)
    assert counts()[1:] == (0, 1)
    receiver.close()
    assert counts()[1:] == (0, 1)


def test_disabled_queue_hands_out_no_session(
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
) -> None:
    """A queue that lets nobody receive accepts nobody, and does so again later (B-034)."""
    send("a", "1")
    queue = admin.get_queue(queue_name)
    queue.status = "ReceiveDisabled"
    admin.update_queue(queue)
    for session_id in ("a", NEXT_AVAILABLE_SESSION):
        with pytest.raises(ServiceBusError, match="forbids to receive"):
            accept(session_id)
    queue.status = "Active"
    admin.update_queue(queue)
    assert texts(take(accept())) == ["1"]


# Expiry


def test_fetch_of_deferred_messages_beside_a_close(
    accept: Callable[..., ServiceBusReceiver],
    client: ServiceBusClient,
    queue_name: str,
    in_background: Callable[..., Any],
) -> None:
    """Whoever holds the session next can fetch them, however the two calls met (B-205, B-278).

    A session that was given back while its messages were fetched left them locked for ever.
    """
    for attempt in range(20):
        session_id = f"session {attempt}"
        with client.get_queue_sender(queue_name) as sender:
            sender.send_messages([ServiceBusMessage(b"x", session_id=session_id) for _ in range(400)])
        holder = accept(session_id)
        messages = holder.receive_messages(400)
        holder.defer_messages(messages)
        numbers = [message.sequence_number for message in messages]
        fetch = in_background(holder.receive_deferred_messages, numbers)
        holder.close()
        # The receiver may have been closed before, or lost its session on the way.
        with contextlib.suppress(ValueError, SessionLockLostError):
            fetch.result()
        assert len(accept(session_id).receive_deferred_messages(numbers)) == 400


@pytest.mark.parametrize("bury", [True, False], ids=["dead letters", "dropped"])
def test_expired_messages_of_a_session(
    client: ServiceBusClient, make_queue: Callable[..., str], send: Callable[..., None], clock: ManualClock, bury: bool
) -> None:
    """Only what is overdue goes, unless the queue says otherwise (B-209, B-253)."""
    name = make_queue("short", requires_session=True, dead_lettering_on_message_expiration=bury)
    send("a", "1", queue_name=name)
    send("a", "2", queue_name=name, time_to_live=timedelta(seconds=10))
    send("a", "3", queue_name=name)
    clock.advance(11)
    with client.get_queue_receiver(name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["1", "3"]
    with client.get_queue_receiver(name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert texts(take(dead_letters)) == (["2"] if bury else [])


@pytest.mark.parametrize("bury", [True, False], ids=["dead letters", "dropped"])
def test_whole_session_expires_where_asked(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    send: Callable[..., None],
    clock: ManualClock,
    bury: bool,
) -> None:
    """With `expire_whole_sessions` one overdue message takes all ready ones of its session along (B-209, B-257).

    Others stay, and nothing happens while nobody receives.
    """
    name = make_queue(
        "short", requires_session=True, dead_lettering_on_message_expiration=bury, expire_whole_sessions=True
    )
    assert admin.get_queue(name).expire_whole_sessions is True
    send("a", "a1", "a2", queue_name=name)
    send("a", "a3", queue_name=name, time_to_live=timedelta(seconds=10))
    send("b", "b1", queue_name=name)
    clock.advance(11)
    with client.get_queue_receiver(name, session_id="b", max_wait_time=0) as receiver:
        assert texts(take(receiver)) == ["b1"]
    with client.get_queue_receiver(name, session_id="a", max_wait_time=0) as receiver:
        assert take(receiver) == []
        send("a", "a4", queue_name=name)
        assert texts(take(receiver)) == ["a4"]
    with client.get_queue_receiver(name, sub_queue="deadletter", max_wait_time=0) as dead_letters:
        assert texts(take(dead_letters)) == (["a1", "a2", "a3"] if bury else [])


def test_whole_session_expiry_can_be_switched(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """It is off, and may be changed later (B-209)."""
    queue = admin.get_queue(queue_name)
    assert queue.expire_whole_sessions is False
    queue.expire_whole_sessions = True
    admin.update_queue(queue)
    assert admin.get_queue(queue_name).expire_whole_sessions is True


# Fairness and waking


def test_chatty_session_does_not_starve_others(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]
) -> None:
    """A session that is refilled after each receive does not keep the others out (B-195, B-199)."""
    waiting = {f"quiet-{number}" for number in range(20)}
    send("chatty", *(str(number) for number in range(10)))
    for session_id in waiting:
        send(session_id, "x")
    for _ in range(200):
        with accept() as receiver:
            receiver.complete_message(take(receiver, 1)[0])
            waiting.discard(str(id_of(receiver)))
        send("chatty", "more")
    assert waiting == set()


def test_equal_sessions_get_equal_turns(accept: Callable[..., ServiceBusReceiver], send: Callable[..., None]) -> None:
    """Sessions of one partition take turns: who was served goes behind who waits (B-195)."""
    partition_of_a = oxbus.partition_id("a")
    ids = ["a", *(f"k{n}" for n in range(200) if oxbus.partition_id(f"k{n}") == partition_of_a)][:5]
    for session_id in ids:
        send(session_id, *"1234")
    turns = []
    for _ in range(20):
        with accept() as receiver:
            receiver.complete_message(take(receiver, 1)[0])
            turns.append(id_of(receiver))
    assert turns == ids * 4


def test_message_wakes_its_holder_only(
    accept: Callable[..., ServiceBusReceiver], send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """A message in a held session wakes the holder that waits, and nobody else gets it (B-132, B-200)."""
    holders = {session_id: accept(session_id) for session_id in "abcd"}
    waiting = {
        session_id: in_background(holder.receive_messages, max_wait_time=60) for session_id, holder in holders.items()
    }
    for session_id in "cadb":
        send(session_id, f"for {session_id}")
        assert texts(waiting.pop(session_id).result()) == [f"for {session_id}"]
        assert all(call.running for call in waiting.values())


def test_threads_that_share_a_session_are_all_woken(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    in_background: Callable[..., Any],
) -> None:
    """A batch of two wakes both threads that wait for one message each (B-132, B-207)."""
    holder = accept("a")
    waiting = [in_background(holder.receive_messages, max_wait_time=60) for _ in range(2)]
    time.sleep(0.05)
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages([ServiceBusMessage(text, session_id="a") for text in "12"])
    assert sorted(str(call.result()[0]) for call in waiting) == ["1", "2"]


def test_new_sessions_wake_as_many_acceptors(
    client: ServiceBusClient, queue_name: str, send: Callable[..., None], in_background: Callable[..., Any]
) -> None:
    """Each new session wakes one of those who wait, and each gets another one (B-196, B-200)."""
    receivers = [client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION) for _ in range(6)]
    waiting = [in_background(receiver.receive_messages) for receiver in receivers]
    time.sleep(0.1)
    got: list[str] = []
    for number in range(6):
        send(f"s{number}", f"{number}")
        end = time.monotonic() + 60
        while sum(not call.running for call in waiting) <= number:
            assert time.monotonic() < end, "nobody was woken"
            time.sleep(0.002)
        time.sleep(0.01)
        assert sum(not call.running for call in waiting) == number + 1
    for call in waiting:
        got += texts(call.result())
    assert sorted(got) == [str(number) for number in range(6)]


def test_given_back_session_wakes_an_acceptor(
    client: ServiceBusClient,
    queue_name: str,
    accept: Callable[..., ServiceBusReceiver],
    send: Callable[..., None],
    clock: ManualClock,
    in_background: Callable[..., Any],
) -> None:
    """A session that is closed, or lost, goes to who waits for one (B-205, B-206)."""
    send("a", "1")
    for way in ("close", "lapse"):
        holder = accept("a")
        take(holder)
        next_one = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
        waiting = in_background(next_one.receive_messages)
        time.sleep(0.05)
        assert waiting.running
        if way == "close":
            holder.close()
        else:
            clock.advance(PAST_THE_LOCK)
        assert texts(waiting.result()) == ["1"]
        next_one.close()


def test_scheduled_message_wakes_an_acceptor(
    client: ServiceBusClient, queue_name: str, clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A session whose first message comes due is handed to who waits (B-112, B-196)."""
    with client.get_queue_sender(queue_name) as sender:
        sender.schedule_messages(ServiceBusMessage("x", session_id="a"), clock.now() + timedelta(seconds=30))
    receiver = client.get_queue_receiver(queue_name, session_id=NEXT_AVAILABLE_SESSION)
    waiting = in_background(receiver.receive_messages)
    time.sleep(0.05)
    assert waiting.running
    clock.advance(30)
    assert texts(waiting.result()) == ["x"]


def test_many_workers_keep_the_order_of_each_session(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """Six workers and two senders: every message once, each session in its order (B-200, B-207, R-07, R-10)."""
    sessions, length = 30, 20

    def produce(part: int) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for number in range(length):
                for session in range(part, sessions, 2):
                    sender.send_messages(ServiceBusMessage(str(number), session_id=f"s{session}"))

    def work() -> list[tuple[str | None, int, int]]:
        seen = []
        with contextlib.suppress(OperationTimeoutError):
            while True:
                with client.get_queue_receiver(
                    queue_name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
                ) as receiver:
                    for message in take(receiver, 5):
                        seen.append((message.session_id, time.monotonic_ns(), int(str(message))))
                        receiver.complete_message(message)
        return seen

    calls = [in_background(produce, part) for part in range(2)]
    workers = [in_background(work) for _ in range(6)]
    for call in calls:
        call.result()
    seen = [one for worker in workers for one in worker.result()]
    order: dict[str | None, list[int]] = {}
    for session_id, _, number in sorted(seen, key=lambda one: one[1]):
        order.setdefault(session_id, []).append(number)
    assert order == {f"s{session}": list(range(length)) for session in range(sessions)}


# A partition that is out of service


def test_partition_out_of_service(
    namespace: Namespace, client: ServiceBusClient, admin: ServiceBusAdministrationClient, key_in: Callable[..., str]
) -> None:
    """Its sessions are unavailable and the others go on; when it heals everything is back (B-089, B-094, B-095)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    down, up = key_in(3), key_in(4)
    with client.get_queue_sender("spread") as sender:
        for session_id in (down, up):
            for text in "12":
                sender.send_messages(ServiceBusMessage(text, session_id=session_id))

    def accept(session_id: Any) -> ServiceBusReceiver:
        return client.get_queue_receiver("spread", session_id=session_id, max_wait_time=0)

    holder = accept(down)
    (held,) = take(holder, 1)
    session = session_of(holder)
    session.set_state(b"kept")
    inject_fault(namespace, 3, "unavailable")
    refused: list[Callable[[], object]] = [
        lambda: holder.receive_messages(max_wait_time=0),
        lambda: holder.complete_message(held),
        session.renew_lock,
        session.get_state,
        lambda: session.set_state(b"x"),
        lambda: accept(key_in(3) if key_in(3) != down else down).receive_messages(),
    ]
    for call in refused:
        with pytest.raises(PartitionUnavailableError) as refusal:
            call()
        assert refusal.value.is_transient
    other = accept(NEXT_AVAILABLE_SESSION)
    assert id_of(other) == up
    assert texts(take(other)) == ["1", "2"]
    with pytest.raises(OperationTimeoutError):
        accept(NEXT_AVAILABLE_SESSION).receive_messages()
    assert list(client.list_queue_sessions("spread")) == [up]
    heal(namespace, 3)
    assert session.get_state() == b"kept"
    holder.complete_message(held)
    assert texts(take(holder)) == ["2"]
    holder.close()
    again = accept(NEXT_AVAILABLE_SESSION)
    assert id_of(again) == down
    assert texts(take(again)) == ["2"]


def test_lock_that_ends_during_an_outage(
    namespace: Namespace,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    key_in: Callable[..., str],
) -> None:
    """A session lost while its partition was out of service is available after it heals (B-095, B-206)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    with client.get_queue_sender("spread") as sender:
        sender.send_messages(ServiceBusMessage("1", session_id=key_in(3)))
    holder = client.get_queue_receiver("spread", session_id=key_in(3), max_wait_time=0)
    take(holder)
    inject_fault(namespace, 3, "unavailable")
    clock.advance(PAST_THE_LOCK)
    heal(namespace, 3)
    with pytest.raises(SessionLockLostError):
        holder.receive_messages()
    with client.get_queue_receiver("spread", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        (message,) = take(receiver)
        assert message.delivery_count == 1
        receiver.complete_message(message)


def test_accept_from_one_partition(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, key_in: Callable[..., str]
) -> None:
    """`partition_id` accepts the next session of one partition, and no named one of another (B-199)."""
    admin.create_queue("spread", enable_partitioning=True, requires_session=True)
    with client.get_queue_sender("spread") as sender:
        for partition_id in range(16):
            sender.send_messages(ServiceBusMessage("x", session_id=key_in(partition_id)))
    with client.get_queue_receiver(
        "spread", session_id=NEXT_AVAILABLE_SESSION, partition_id=7, max_wait_time=0
    ) as receiver:
        assert id_of(receiver) == key_in(7)
    with (
        pytest.raises(ValueError, match="partition"),
        client.get_queue_receiver("spread", session_id=key_in(2), partition_id=7, max_wait_time=0),
    ):
        pass
