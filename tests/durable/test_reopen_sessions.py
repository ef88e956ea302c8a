# SPDX-License-Identifier: Apache-2.0
"""Sessions after a reopen: messages, order and state survive, locks do not (B-102, B-177, B-211, R-07, R-15)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from durable_bus import WAYS, bodies
from oxbus import NEXT_AVAILABLE_SESSION, Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.cli import main
from oxbus.exceptions import InvalidOperationError, OperationTimeoutError, PartitionUnavailableError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus
    from oxbus import ServiceBusReceiver, ServiceBusSession
    from oxbus.testing import ManualClock

SESSIONS = ["", *(f"s{number}" for number in range(11))]


@pytest.fixture
def queue(bus: Bus, partitioned: bool) -> Bus:
    """The bus with an empty queue `q` with sessions, partitioned if the fixture is True."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, requires_session=True, max_delivery_count=3)
    return bus


def accept(bus: Bus, session_id: Any = NEXT_AVAILABLE_SESSION, **options: Any) -> ServiceBusReceiver:
    """Accept a session without waiting."""
    return bus.client.get_queue_receiver("q", session_id=session_id, max_wait_time=0, **options).__enter__()


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session of a receiver that has one."""
    assert receiver.session is not None
    return receiver.session


@pytest.mark.parametrize("way", WAYS)
def test_order_of_each_session_stays(queue: Bus, way: str) -> None:
    """Each session is delivered in send order, over several reopens (B-207, R-07)."""
    for step in range(3):
        for number in range(3):
            for session_id in SESSIONS:
                queue.send(f"{step}.{number}", session_id=session_id)
        queue.reopen(way)
    seen = {}
    for _ in SESSIONS:
        receiver = accept(queue)
        seen[session_of(receiver).session_id] = bodies(receiver.receive_messages(100))
    assert seen == {
        session_id: [f"{step}.{number}" for step in range(3) for number in range(3)] for session_id in SESSIONS
    }
    with pytest.raises(OperationTimeoutError):
        accept(queue)


@pytest.mark.parametrize("way", WAYS)
def test_locks_end_with_their_process(queue: Bus, way: str) -> None:
    """A session is free after the reopen; the locked message is next, with a counted delivery (B-102, B-177, B-206)."""
    queue.send(*"abcd", session_id="s")
    receiver = accept(queue, "s")
    first, second, _ = receiver.receive_messages(3)
    receiver.complete_message(second)
    receiver.abandon_message(first)
    queue.reopen(way)
    messages = accept(queue).receive_messages(10)
    assert [(str(message), message.delivery_count) for message in messages] == [("a", 1), ("c", 1), ("d", 0)]


@pytest.mark.parametrize("way", WAYS)
def test_closed_session_counts_no_delivery(queue: Bus, way: str) -> None:
    """Messages that a receiver released before the end are unchanged (B-205)."""
    queue.send(*"ab", session_id="s")
    receiver = accept(queue)
    receiver.receive_messages(2)
    receiver.close()
    queue.namespace.checkpoint()
    queue.reopen(way)
    assert [message.delivery_count for message in accept(queue).receive_messages(10)] == [0, 0]


@pytest.mark.parametrize("way", WAYS)
def test_states_stay(queue: Bus, clock: ManualClock, way: str) -> None:
    """States have the last value and its time; cleared ones stay cleared (B-211, R-15)."""
    for number, session_id in enumerate(SESSIONS):
        session = session_of(accept(queue, session_id))
        session.set_state(b"before")
        if number == 5:
            queue.namespace.checkpoint()
        clock.advance(1)
        session.set_state(f"state {number}" if number % 3 else None)
    session_of(accept(queue, "empty")).set_state(b"")
    listed = list(queue.client.list_queue_sessions("q", details=True))
    for _ in range(2):
        queue.reopen(way)
        unlocked = list(queue.client.list_queue_sessions("q", details=True))
        assert [(it.session_id, it.state_updated_at_utc) for it in unlocked] == [
            (it.session_id, it.state_updated_at_utc) for it in listed
        ]
        assert [it.lock_owner for it in unlocked] == [None] * len(listed)
        for number, session_id in enumerate(SESSIONS):
            receiver = accept(queue, session_id)
            assert session_of(receiver).get_state() == (f"state {number}".encode() if number % 3 else None)
            receiver.close()
        assert session_of(accept(queue, "empty")).get_state() == b""


@pytest.mark.parametrize("way", WAYS)
def test_every_stage_of_a_session(queue: Bus, clock: ManualClock, way: str) -> None:
    """Deferred, scheduled, dead-lettered and deleted messages keep their state (B-103, B-198, B-208)."""
    queue.send("deferred", "dead", "done", session_id="s")
    queue.send("deleted", "left", session_id="t")
    with queue.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("later", session_id="u"), clock.now() + timedelta(hours=1))
    receiver = accept(queue, "s")
    deferred, dead, done = receiver.receive_messages(3)
    receiver.defer_message(deferred)
    receiver.dead_letter_message(dead, "reason")
    receiver.complete_message(done)
    accept(queue, "t", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE).receive_messages(1)
    before = queue.observed_state()
    queue.reopen(way)
    assert queue.observed_state() == before
    assert before["options"]["requires_session"] is True
    (only,) = accept(queue, "t").receive_messages(10)
    assert str(only) == "left"
    with pytest.raises(OperationTimeoutError):
        accept(queue)
    (fetched,) = accept(queue, "s").receive_deferred_messages(deferred.sequence_number)
    assert str(fetched) == "deferred"
    clock.advance(3600)
    receiver = accept(queue, "u")
    assert bodies(receiver.receive_messages(10)) == ["later"]


@pytest.mark.parametrize("way", WAYS)
def test_deliveries_end_in_the_dead_letters(queue: Bus, way: str) -> None:
    """A message that was in flight at each of three ends is a dead letter, and the session continues (B-178)."""
    queue.send("bad", "good", session_id="s")
    for _ in range(3):
        assert bodies(accept(queue).receive_messages(1)) == ["bad"]
        queue.reopen(way)
    assert bodies(accept(queue).receive_messages(10)) == ["good"]
    (dead,) = queue.take(sub_queue="deadletter")
    assert (str(dead), dead.dead_letter_reason) == ("bad", "MaxDeliveryCountExceeded")


@pytest.mark.parametrize("way", WAYS)
def test_rules_of_the_queue_stay(queue: Bus, way: str) -> None:
    """The queue still requires sessions after the reopen (B-181, B-184, B-187)."""
    queue.reopen(way)
    with pytest.raises(InvalidOperationError):
        queue.send("x")
    with pytest.raises(InvalidOperationError):
        queue.receiver().receive_messages(max_wait_time=0)


def test_state_that_cannot_be_written(queue: Bus, partitioned: bool) -> None:
    """A state that cannot be written is an error, and the previous state is kept (B-095, R-15)."""
    session = session_of(accept(queue, "s"))
    session.set_state(b"written")
    partition_id = oxbus.partition_id("s", 4) if partitioned else oxbus.partition_id("q", 4)
    inject_fault(queue.namespace, partition_id, "eio-write")
    with pytest.raises(PartitionUnavailableError):
        session.set_state(b"refused")
    heal(queue.namespace, partition_id)
    queue.reopen("close")
    assert session_of(accept(queue, "s")).get_state() in {b"written", b"refused"}


def test_messages_on_disk_keep_their_sessions(make_bus: Callable[..., Bus]) -> None:
    """Bodies that are not in memory are delivered in the order of their session too (B-207)."""
    bus = make_bus(memory_limit_bytes=4 << 20)
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True, requires_session=True)
    for number in range(40):
        for session_id in ("a", "b", "c"):
            bus.send(f"{number}" + "x" * 60_000, session_id=session_id)
    bus.reopen("crash")
    for _ in range(3):
        receiver = accept(bus)
        seen = []
        while messages := receiver.receive_messages(7):
            seen += [int(str(message).rstrip("x")) for message in messages]
            receiver.complete_messages(messages)
        assert seen == list(range(40))


@pytest.mark.parametrize("catalog", [True, False], ids=["with catalog", "without"])
def test_salvage_brings_messages_and_states(
    queue: Bus, partitioned: bool, catalog: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """`oxbus salvage` keeps sessions; without a catalog a queue that has states is found to have sessions (R-15).

    Without a catalog a queue counts as partitioned, so this holds for partitioned queues only.
    """
    if not (catalog or partitioned):
        pytest.skip("without a catalog every queue counts as partitioned")
    for session_id in ("a", "b"):
        queue.send(*"123", session_id=session_id)
        receiver = accept(queue, session_id)
        session_of(receiver).set_state(session_id * 3)
        receiver.complete_message(receiver.receive_messages(1)[0])
        receiver.close()
    queue.close()
    if not catalog:
        for path in queue.path.glob("catalog*"):
            path.unlink()
    assert main(["salvage", str(queue.path), "--json"]) == 0
    capsys.readouterr()
    with Namespace(queue.path.with_name(f"{queue.path.name}.salvaged")) as namespace:
        client = ServiceBusClient(namespace)
        (name,) = (it.name for it in oxbus.management.ServiceBusAdministrationClient(namespace).list_queues())
        assert (name == "q") is catalog
        for session_id in ("a", "b"):
            with client.get_queue_receiver(name, session_id=session_id, max_wait_time=0) as receiver:
                assert session_of(receiver).get_state() == session_id.encode() * 3
                assert bodies(receiver.receive_messages(10)) == ["2", "3"]


def test_a_namespace_opens_while_dead_letters_are_to_be_forwarded(
    bus: Bus, clock: ManualClock, partitioned: bool
) -> None:
    """Messages found expired in a session at the open are forwarded with the dead letters (B-253, B-269).

    The open once deadlocked here: it forwarded before the entities could be looked up.
    """
    bus.admin.create_queue("dead")
    bus.admin.create_queue(
        "sessions",
        enable_partitioning=partitioned,
        requires_session=True,
        dead_lettering_on_message_expiration=True,
        forward_dead_lettered_messages_to="dead",
    )
    with bus.client.get_queue_sender("sessions") as sender:
        sender.send_messages(ServiceBusMessage("late", session_id="s", time_to_live=timedelta(seconds=1)))
    clock.advance(2)
    bus.reopen("close")
    with bus.client.get_queue_receiver("dead") as receiver:
        (message,) = receiver.receive_messages(5, max_wait_time=0)
    assert (str(message), message.dead_letter_reason) == ("late", "TTLExpiredException")
