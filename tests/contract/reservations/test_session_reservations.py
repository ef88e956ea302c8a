# SPDX-License-Identifier: Apache-2.0
"""Reservations of a queue that requires sessions: they hold whole runs of sessions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import NEXT_AVAILABLE_SESSION, Namespace, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    ReservationFencedError,
    SessionCannotBeLockedError,
)
from reserving import LOCK_SECONDS, Consumer, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient
    from oxbus.testing import ManualClock


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """A queue that requires sessions."""
    return make_queue("by-session", requires_session=True, max_delivery_count=3)


@pytest.fixture
def fill(client: ServiceBusClient, queue: str) -> Callable[..., None]:
    """Send numbered messages to sessions, one of each session in turn."""

    def fill(sessions: list[str], count: int, first: int = 0) -> None:
        with client.get_queue_sender(queue) as sender:
            for number in range(first, first + count):
                for session in sessions:
                    sender.send_messages(ServiceBusMessage(f"{number:04}", session_id=session))

    return fill


@pytest.fixture
def consumer(namespace: Namespace, queue: str) -> Consumer:
    """A consumer of the queue."""
    return Consumer(namespace, queue)


def by_session(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The bodies of rows by session, in the order of the rows."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found[row["session_id"]].append(row["body"].decode())
    return dict(found)


def bodies(count: int, first: int = 0) -> list[str]:
    """The bodies of numbered messages."""
    return [f"{number:04}" for number in range(first, first + count)]


def received(client: ServiceBusClient, queue: str, session: str) -> list[str]:
    """Receive and complete all messages of a session."""
    with client.get_queue_receiver(queue, session_id=session, max_wait_time=0) as receiver:
        found = receiver.receive_messages(max_message_count=1000)
        receiver.complete_messages(found)
        return [str(message) for message in found]


def test_sessions_come_whole_and_in_order(
    fill: Callable[..., None], consumer: Consumer, client: ServiceBusClient, queue: str
) -> None:
    """No one else gets the sessions; what arrives meanwhile waits for the next reservation."""
    fill(["a", "b", "c"], 5)
    plan = consumer.reserve(1)
    assert by_session(consumer.read(plan)) == dict.fromkeys("abc", bodies(5))
    assert consumer.sessions(plan) == dict.fromkeys("abc")
    fill(["a", "d"], 5, first=5)
    with pytest.raises(SessionCannotBeLockedError):
        received(client, queue, "a")
    second = consumer.reserve(2)
    assert by_session(consumer.read(second)) == {"d": bodies(5, 5)}
    assert consumer.complete(1) == (15, 0)
    third = consumer.reserve(3)
    assert by_session(consumer.read(third)) == {"a": bodies(5, 5)}
    assert consumer.complete(3) == (10, 0)
    assert received(client, queue, "a") == []


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_limits(fill: Callable[..., None], consumer: Consumer, count: int) -> None:
    """A run that does not fit is cut; its rest comes in a later reservation, in order."""
    sessions = [f"s{number}" for number in range(6)]
    fill(sessions, 10)
    found: dict[str, list[str]] = defaultdict(list)
    number = 0
    while True:
        number += 1
        plan = consumer.reserve(number, count)
        if not plan["messages"]:
            break
        assert plan["messages"] <= count
        for session, texts in by_session(consumer.read(plan)).items():
            found[session] += texts
        assert consumer.complete(number) == (plan["messages"], 0)
    assert found == dict.fromkeys(sessions, bodies(10))


def test_number_of_sessions(fill: Callable[..., None], consumer: Consumer) -> None:
    """`max_sessions` bounds them; those that waited longest come first."""
    fill([f"s{number}" for number in range(8)], 3)
    seen: list[str] = []
    for number in (1, 2, 3):
        plan = consumer.reserve(number, sessions=3)
        seen += consumer.sessions(plan)
        consumer.complete(number)
    assert sorted(seen) == [f"s{number}" for number in range(8)]


def test_size(fill: Callable[..., None], consumer: Consumer) -> None:
    """The bytes bound the messages; one message may be larger."""
    fill(["a", "b"], 10)
    assert consumer.reserve(1, size=1)["messages"] == 1
    assert 1 < consumer.reserve(2, size=500)["messages"] < 20


def test_wrong_limits(consumer: Consumer, namespace: Namespace, make_queue: Callable[..., str]) -> None:
    """At least one session, and only where there are sessions."""
    with pytest.raises(ValueError, match="max_sessions"):
        consumer.reserve(1, sessions=0)
    with pytest.raises(ValueError, match="leave it out"):
        Consumer(namespace, make_queue("plain")).reserve(1, sessions=1)
    with pytest.raises(ValueError, match="leave it out"):
        Consumer(namespace, "by-session/$deadletterqueue").reserve(1, sessions=1)


def test_a_reservation_waits_for_a_session(fill: Callable[..., None], consumer: Consumer) -> None:
    """It is woken by the first message."""
    import threading  # noqa: PLC0415 -- only here

    sender = threading.Timer(0.1, fill, (["a"], 1))
    sender.start()
    assert consumer.reserve(1, wait=30)["messages"] == 1
    sender.join()


def test_up_to_a_counter(fill: Callable[..., None], consumer: Consumer, client: ServiceBusClient, queue: str) -> None:
    """Messages beyond it, and sessions that have only such, are left alone."""
    fill(["a", "b"], 3)
    ends = consumer.handle.ends()
    fill(["a", "b", "c"], 3, first=3)
    plan = consumer.reserve(1, upto=ends)
    assert by_session(consumer.read(plan)) == dict.fromkeys("ab", bodies(3))
    consumer.complete(1)
    assert consumer.reserve(2, upto=ends)["messages"] == 0
    for session in "abc":
        assert received(client, queue, session) == bodies(3, 3)


def test_from_the_latest_message_on(fill: Callable[..., None], namespace: Namespace, queue: str) -> None:
    """Older messages of a session are left to others."""
    fill(["a"], 3)
    consumer = Consumer(namespace, queue, start="latest")
    assert consumer.reserve(1)["messages"] == 0
    fill(["a"], 2, first=3)
    assert by_session(consumer.read(consumer.reserve(1))) == {"a": bodies(2, 3)}


def test_sessions_without_messages_in_the_bounds_keep_their_place(
    fill: Callable[..., None], namespace: Namespace, client: ServiceBusClient, queue: str
) -> None:
    """A session that is left out has waited as long as before."""
    candidates = (f"s{number}" for number in range(10_000))
    one_partition = (it for it in candidates if oxbus.partition_id(it, 16) == 0)
    first, second, third = (next(one_partition) for _ in range(3))
    fill([first], 1)
    consumer = Consumer(namespace, queue, start="latest")
    fill([second, third], 1, first=1)
    assert consumer.sessions(consumer.reserve(1, sessions=1)) == {second: None}
    with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        assert receiver.session is not None
        assert receiver.session.session_id == first


def test_other_receivers_come_first_and_after(
    fill: Callable[..., None], consumer: Consumer, client: ServiceBusClient, queue: str
) -> None:
    """A session that a receiver holds is not reserved; a released one is available to it."""
    fill(["a", "b"], 3)
    with client.get_queue_receiver(queue, session_id="a", max_wait_time=0) as receiver:
        (message,) = receiver.receive_messages()
        assert consumer.sessions(consumer.reserve(1)) == {"b": None}
        receiver.complete_message(message)
    assert by_session(consumer.read(consumer.reserve(2))) == {"a": bodies(2, 1)}
    assert consumer.handle.cancel_reservation("c") == 5
    assert received(client, queue, "b") == bodies(3)
    with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
        assert receiver.session is not None
        assert receiver.session.session_id == "a"


def test_expiry_returns_sessions_and_counts_deliveries(
    fill: Callable[..., None], consumer: Consumer, clock: ManualClock, client: ServiceBusClient, queue: str
) -> None:
    """The number then covers what no one took: the rest of a session, in order, and no newer messages."""
    fill(["a", "b", "c"], 4)
    plan = consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLostError):
        consumer.sessions(plan)
    with client.get_queue_receiver(queue, session_id="a", max_wait_time=0) as receiver:
        taken = receiver.receive_messages(max_message_count=2)
        assert [(str(message), message.delivery_count) for message in taken] == [("0000", 1), ("0001", 1)]
        receiver.complete_messages(taken)
    fill(["b"], 1, first=4)
    with client.get_queue_receiver(queue, session_id="c"):
        again = consumer.plan(1)
    rows = consumer.read(again)
    assert by_session(rows) == {"a": bodies(2, 2), "b": bodies(4)}
    assert {row["delivery_count"] for row in rows} == {1}
    assert again["missing"] == 6
    assert consumer.complete(1) == (6, 0)
    assert received(client, queue, "b") == bodies(1, 4)
    assert received(client, queue, "c") == bodies(4)


def test_completion_after_expiry(
    fill: Callable[..., None], consumer: Consumer, clock: ManualClock, client: ServiceBusClient, queue: str
) -> None:
    """What others took in between is late; the rest is completed, and its sessions are free."""
    fill(["a", "b"], 3)
    consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    assert received(client, queue, "a") == bodies(3)
    assert consumer.complete(1) == (3, 3)
    fill(["a", "b"], 1)
    assert received(client, queue, "b") == bodies(1)


@pytest.mark.parametrize("is_live", [True, False])
def test_completion_of_two_numbers_with_one_session(
    fill: Callable[..., None],
    consumer: Consumer,
    clock: ManualClock,
    client: ServiceBusClient,
    queue: str,
    is_live: bool,
) -> None:
    """The first one expired and the second has its session: messages that no one took are completed, not late."""
    fill(["a"], 4)
    consumer.reserve(1)
    clock.advance(LOCK_SECONDS + 1)
    consumer.reserve(2, 2)
    fill(["a"], 1, first=4)
    clock.advance(0 if is_live else LOCK_SECONDS + 1)
    assert consumer.complete(2) == (4, 2)
    assert received(client, queue, "a") == bodies(1, 4)


def test_a_poisonous_session_is_dead_lettered_message_by_message(
    fill: Callable[..., None], consumer: Consumer, clock: ManualClock, namespace: Namespace, queue: str
) -> None:
    """Expiries count, as for other queues."""
    fill(["a"], 2)
    for _ in range(3):
        assert consumer.reserve(1)["messages"] == 2
        clock.advance(LOCK_SECONDS + 1)
    assert consumer.plan(1)["messages"] == 0
    dead = Consumer(namespace, f"{queue}/$deadletterqueue")
    assert dead.reserve(1)["messages"] == 2


def test_renewal_keeps_sessions(fill: Callable[..., None], consumer: Consumer, clock: ManualClock) -> None:
    """Sessions have no deadline of their own."""
    fill(["a"], 2)
    plan = consumer.reserve(1)
    for _ in range(5):
        clock.advance(LOCK_SECONDS - 1)
        consumer.renew()
        assert consumer.sessions(plan) == {"a": None}
    assert consumer.complete(1) == (2, 0)


def test_fencing(fill: Callable[..., None], consumer: Consumer, namespace: Namespace, queue: str) -> None:
    """A newer run of the program gets the same sessions, the older one none."""
    fill(["a"], 2)
    plan = consumer.reserve(1)
    newer = Consumer(namespace, queue)
    assert numbers_of(newer.plan(1)) == numbers_of(plan)
    with pytest.raises(ReservationFencedError):
        consumer.sessions(plan)
    assert newer.sessions(newer.plan(1)) == {"a": None}


def test_states_change_with_settled_messages(
    fill: Callable[..., None], consumer: Consumer, client: ServiceBusClient, queue: str
) -> None:
    """The last message's state counts; a repeated call changes nothing."""
    fill(["a", "b"], 3)
    plan = consumer.reserve(1)
    rows = consumer.read(plan)
    numbers = {session: [row["sequence_number"] for row in rows if row["session_id"] == session] for session in "ab"}
    states: dict[int, bytes | None] = {numbers["a"][0]: b"early", numbers["a"][2]: b"late", numbers["b"][1]: b"b"}
    assert consumer.settle(plan, numbers["a"] + numbers["b"][:2], "complete", session_states=states) == 5
    assert consumer.sessions(plan) == {"a": b"late", "b": b"b"}
    assert consumer.settle(plan, numbers["a"], "complete", session_states={numbers["a"][0]: b"again"}) == 0
    assert consumer.sessions(plan) == {"a": b"late", "b": b"b"}
    assert consumer.settle(plan, numbers["b"][2:], "dead_letter", session_states={numbers["b"][2]: None}) == 1
    assert consumer.complete(1) == (0, 0)
    for session, state in {"a": b"late", "b": None}.items():
        with client.get_queue_receiver(queue, session_id=session) as receiver:
            assert receiver.session is not None
            assert receiver.session.get_state() == state


def test_states_need_a_settled_message(
    fill: Callable[..., None], consumer: Consumer, namespace: Namespace, make_queue: Callable[..., str]
) -> None:
    """A state without its message and a queue without sessions are refused; nothing happens."""
    fill(["a"], 2)
    plan = consumer.reserve(1)
    first, second = numbers_of(plan)
    with pytest.raises(ValueError, match="a message that the call settles"):
        consumer.settle(plan, [first], "complete", session_states={second: b"x"})
    assert consumer.settle(plan, [first, second], "complete") == 2
    plain = Consumer(namespace, make_queue("plain"))
    with pytest.raises(InvalidOperationError):
        plain.settle({"id": "1-0-c"}, [1], "complete", session_states={1: b"x"})
    with pytest.raises(InvalidOperationError):
        plain.handle.reserved_sessions("1-0-c", plain.epoch, 0)


def test_pages_of_sessions(fill: Callable[..., None], consumer: Consumer) -> None:
    """All sessions come, however small the pages."""
    sessions = [f"s{number:02}" for number in range(30)]
    fill(sessions, 1)
    plan = consumer.reserve(1)
    assert consumer.sessions(plan, max_bytes=1) == dict.fromkeys(sessions)


def test_abandoned_messages_return_to_their_session(
    fill: Callable[..., None], consumer: Consumer, client: ServiceBusClient, queue: str
) -> None:
    """They wait there in their place until the reservation ends."""
    fill(["a"], 3)
    plan = consumer.reserve(1)
    assert consumer.settle(plan, numbers_of(plan)[:1], "abandon") == 1
    assert consumer.complete(1) == (2, 0)
    assert received(client, queue, "a") == ["0000"]
