# SPDX-License-Identifier: Apache-2.0
"""The states of messages after a reopen: deferred, scheduled, dead-lettered and expiring."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, bodies, body_of
from oxbus import ServiceBusMessage, ServiceBusMessageState
from oxbus.exceptions import MessageNotFoundError

if TYPE_CHECKING:
    from durable_bus import Bus
    from oxbus.testing import ManualClock

pytestmark = pytest.mark.parametrize("way", WAYS)


def test_deferred_message_is_fetched_by_its_number_only(queue: Bus, way: str) -> None:
    """A deferred message keeps its number and changes, is not received, and is fetched once (B-275, B-276)."""
    queue.send("deferred", "ready", partition_key="k")
    message = queue.take_one()
    queue.receiver().defer_message(message, properties_to_modify={"put": "deferred"})
    queue.reopen(way)
    assert bodies(queue.take()) == ["ready"]
    (fetched,) = queue.receiver().receive_deferred_messages(message.sequence_number)
    assert (str(fetched), fetched.state, fetched.delivery_count) == ("deferred", ServiceBusMessageState.DEFERRED, 1)
    assert fetched.application_properties == {"put": "deferred"}
    queue.receiver().complete_message(fetched)
    queue.reopen(way)
    with pytest.raises(MessageNotFoundError):
        queue.receiver().receive_deferred_messages(message.sequence_number)
    assert bodies(queue.peek()) == ["ready"]


def test_deferred_dead_letter_stays_deferred(queue: Bus, way: str) -> None:
    """Deferral in the dead-letter queue survives too (B-287)."""
    queue.send("x")
    queue.receiver().dead_letter_message(queue.take_one(), "why")
    dead = queue.take_one(sub_queue="deadletter")
    queue.receiver(sub_queue="deadletter").defer_message(dead)
    queue.reopen(way)
    assert queue.take(sub_queue="deadletter") == []
    (fetched,) = queue.receiver(sub_queue="deadletter").receive_deferred_messages(dead.sequence_number)
    assert (str(fetched), fetched.dead_letter_reason) == ("x", "why")


def test_message_states_survive_checkpoints_and_reopens(queue: Bus, clock: ManualClock, way: str) -> None:
    """Deferred, scheduled and dead-lettered messages stay so, from a snapshot or from the journal (R-16, R-18)."""
    queue.send("deferred", "dead", "dead and deferred", "ready", partition_key="k")
    deferred, dead, both = (queue.take_one() for _ in range(3))
    queue.receiver().defer_message(deferred)
    queue.receiver().dead_letter_messages([dead, both], "why")
    dead, both = queue.take(sub_queue="deadletter")
    queue.receiver(sub_queue="deadletter").abandon_message(dead)
    queue.receiver(sub_queue="deadletter").defer_message(both)
    with queue.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("later"), clock.now() + timedelta(minutes=10))
    before = queue.observed_state()
    for _ in range(3):
        queue.reopen(way)
        assert queue.observed_state() == before
        queue.namespace.checkpoint()
        assert queue.observed_state() == before
    (fetched,) = queue.receiver().receive_deferred_messages(deferred.sequence_number)
    (dead_fetched,) = queue.receiver(sub_queue="deadletter").receive_deferred_messages(both.sequence_number)
    assert (str(fetched), str(dead_fetched)) == ("deferred", "dead and deferred")
    clock.advance(600)
    assert sorted(bodies(queue.take())) == ["later", "ready"]
    assert bodies(queue.take(sub_queue="deadletter")) == ["dead"]


def test_scheduled_message_keeps_its_time(queue: Bus, clock: ManualClock, way: str) -> None:
    """A scheduled message appears when it is due, not before, under a new number (B-233, B-235)."""
    due = clock.now() + timedelta(minutes=10)
    with queue.sender() as sender:
        (number,) = sender.schedule_messages(ServiceBusMessage("later", partition_key="k"), due)
        sender.send_messages(ServiceBusMessage("by property", partition_key="k", scheduled_enqueue_time_utc=due))
    clock.advance(300)
    queue.reopen(way)
    assert queue.take() == []
    assert [message.state for message in queue.peek()] == [ServiceBusMessageState.SCHEDULED] * 2
    assert queue.peek()[0].scheduled_enqueue_time_utc == due
    assert queue.runtime().scheduled_message_count == 2
    clock.advance(299)
    assert queue.take() == []
    clock.advance(1)
    messages = queue.take()
    assert sorted(bodies(messages)) == ["by property", "later"]
    assert min(message.sequence_number for message in messages) > number + 1
    assert {message.enqueued_time_utc for message in messages} == {due}
    queue.receiver().complete_messages(messages)
    queue.reopen(way)
    assert queue.runtime().total_message_count == 0


def test_scheduled_messages_that_fell_due_while_closed(queue: Bus, clock: ManualClock, way: str) -> None:
    """Messages that fell due while the directory was closed are available at the next open, in order (B-235, B-236)."""
    with queue.sender() as sender:
        for minutes in (30, 10, 20, 600):
            sender.schedule_messages(
                ServiceBusMessage(str(minutes), partition_key="k"), clock.now() + timedelta(minutes=minutes)
            )
    queue.stop(way)
    clock.advance(3600)
    queue.open()
    assert bodies(queue.take()) == ["10", "20", "30"]
    assert queue.runtime().scheduled_message_count == 1


def test_activated_message_stays_activated(queue: Bus, clock: ManualClock, way: str) -> None:
    """A message is activated once: it keeps its new number, and the old one is unknown (B-112, B-237)."""
    with queue.sender() as sender:
        (number,) = sender.schedule_messages(ServiceBusMessage("x"), clock.now() + timedelta(minutes=1))
    clock.advance(61)
    (active,) = queue.peek()
    assert active.sequence_number != number
    queue.reopen(way)
    (again,) = queue.peek()
    assert (again.sequence_number, again.state) == (active.sequence_number, ServiceBusMessageState.ACTIVE)
    assert again.enqueued_time_utc == active.enqueued_time_utc
    with queue.sender() as sender, pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(number)


def test_schedule_can_be_cancelled_after_a_reopen(queue: Bus, clock: ManualClock, way: str) -> None:
    """The number that scheduling returned still cancels one of two messages (B-238)."""
    with queue.sender() as sender:
        first, second = sender.schedule_messages(
            [ServiceBusMessage(text, partition_key="k") for text in ("first", "second")],
            clock.now() + timedelta(minutes=1),
        )
    assert first != second
    queue.reopen(way)
    with queue.sender() as sender:
        sender.cancel_scheduled_messages(first)
    clock.advance(61)
    assert bodies(queue.take()) == ["second"]


def test_dead_letter_keeps_reason_number_and_count(queue: Bus, way: str) -> None:
    """A dead letter has the same reason, description, number and count as before (B-111, B-263)."""
    queue.send("x")
    queue.receiver().abandon_message(queue.take_one())
    message = queue.take_one()
    queue.receiver().dead_letter_message(message, "a reason", "schlüssel 鍵" * 100)
    queue.reopen(way)
    assert queue.peek() == []
    dead = queue.take_one(sub_queue="deadletter")
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("a reason", "schlüssel 鍵" * 100)
    assert (dead.sequence_number, dead.delivery_count, body_of(dead)) == (message.sequence_number, 1, b"x")
    assert dead.enqueued_time_utc == message.enqueued_time_utc
    queue.receiver(sub_queue="deadletter").complete_message(dead)
    queue.reopen(way)
    assert queue.peek(sub_queue="deadletter") == []


def test_time_to_live_continues_while_closed(bus: Bus, clock: ManualClock, way: str, partitioned: bool) -> None:
    """A message expires at the time set when it was stored, open or not, and is dead-lettered (B-246, B-253)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, dead_lettering_on_message_expiration=True)
    bus.send("short", time_to_live=timedelta(minutes=10), partition_key="k")
    bus.send("long", time_to_live=timedelta(hours=10), partition_key="k")
    expiries = [message.expires_at_utc for message in bus.peek()]
    bus.reopen(way)
    assert [message.expires_at_utc for message in bus.peek()] == expiries
    bus.stop(way)
    clock.advance(601)
    bus.open()
    assert bodies(bus.take()) == ["long"]
    dead = bus.take_one(sub_queue="deadletter")
    assert (str(dead), dead.dead_letter_reason) == ("short", "TTLExpiredException")
    bus.reopen(way)
    assert bus.runtime().dead_letter_message_count == 1


def test_expired_message_that_was_dropped_does_not_return(queue: Bus, clock: ManualClock, way: str) -> None:
    """Without dead-lettering an expired message is gone for good, even if it was locked at the end (B-252, B-253)."""
    queue.send("locked", "ready", time_to_live=timedelta(seconds=50), partition_key="k")
    assert str(queue.take_one()) == "locked"
    queue.stop(way)
    clock.advance(51)
    queue.open()
    assert queue.take() == []
    queue.reopen(way)
    assert queue.take() == []
    assert queue.peek(sub_queue="deadletter") == []


def test_deferred_message_does_not_expire_while_closed(queue: Bus, clock: ManualClock, way: str) -> None:
    """A deferred message whose time passed while the namespace was closed is still kept and visible (B-255, B-286)."""
    queue.send("x", time_to_live=timedelta(minutes=1))
    queue.receiver().defer_message(queue.take_one())
    queue.stop(way)
    clock.advance(3600)
    queue.open()
    assert [message.state for message in queue.peek()] == [ServiceBusMessageState.DEFERRED]


@pytest.mark.parametrize("dead_lettering", [True, False], ids=["dead-letter", "drop"])
def test_deferred_message_that_was_found_expired_stays_gone(
    bus: Bus, clock: ManualClock, way: str, partitioned: bool, dead_lettering: bool
) -> None:
    """A fetch that finds it expired drops or dead-letters it for good (B-253, B-255, R-17, R-20)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, dead_lettering_on_message_expiration=dead_lettering)
    bus.send("x", time_to_live=timedelta(minutes=1))
    message = bus.take_one()
    bus.receiver().defer_message(message)
    bus.stop(way)
    clock.advance(3600)
    bus.open()
    for _ in range(2):
        with pytest.raises(MessageNotFoundError):
            bus.receiver().receive_deferred_messages(message.sequence_number)
        assert bus.peek() == []
        assert [dead.dead_letter_reason for dead in bus.peek("q", "deadletter")] == [
            "TTLExpiredException"
        ] * dead_lettering
        assert bus.runtime().total_message_count == int(dead_lettering)
        bus.reopen(way)
