# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages (B-087, B-232 to B-243, R-16)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState
from oxbus.exceptions import InvalidOperationError, MessageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

HOUR = timedelta(hours=1)
WAYS = ("schedule_messages", "property")


def schedule(way: str, sender: ServiceBusSender, message: ServiceBusMessage, due: datetime) -> None:
    """Schedule a message in one of two ways."""
    if way == "property":
        message.scheduled_enqueue_time_utc = due
        sender.send_messages(message)
    else:
        sender.schedule_messages(message, due)


@pytest.mark.parametrize("way", WAYS)
def test_scheduled_message_waits_for_its_time(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    way: str,
) -> None:
    """Both ways of scheduling hide the message from receivers exactly until its time (B-232, B-233)."""
    schedule(way, sender, ServiceBusMessage(b"x", message_id="1"), clock.now() + HOUR)
    assert receiver.receive_messages(max_wait_time=0) == []
    clock.advance(3599)
    assert receiver.receive_messages(max_wait_time=0) == []
    (peeked,) = receiver.peek_messages(sequence_number=1)
    assert peeked.state == ServiceBusMessageState.SCHEDULED
    clock.advance(1)
    message = receive_one(receiver)
    assert (str(message), message.message_id, message.delivery_count) == ("x", "1", 0)
    receiver.complete_message(message)


def test_a_schedule_happens_once(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A message that became due and was completed is never delivered again (B-244)."""
    sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1))
    clock.advance(3600)
    receiver.complete_message(receive_one(receiver))
    for days in (1, 7, 30, 365):
        clock.advance(days * 86_400)
        assert receiver.receive_messages(max_wait_time=0) == []
    assert receiver.peek_messages() == []


def test_schedule_returns_one_number_for_each_message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock
) -> None:
    """`schedule_messages` returns the numbers of the pending messages (B-232)."""
    single = sender.schedule_messages(ServiceBusMessage(b"0", partition_key="k"), clock.now() + HOUR)
    several = sender.schedule_messages(
        [ServiceBusMessage(str(number), partition_key="k") for number in (1, 2)], clock.now() + HOUR
    )
    assert [len(single), len(several)] == [1, 2]
    peeked = receiver.peek_messages(max_message_count=10)
    assert {message.sequence_number: str(message) for message in peeked} == dict(
        zip([*single, *several], ["0", "1", "2"], strict=True)
    )
    assert sender.schedule_messages([], clock.now() + HOUR) == []


def test_scheduled_messages_are_counted_apart(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, clock: ManualClock
) -> None:
    """Pending messages are counted as scheduled, and as active once due (B-233, B-391)."""
    for _ in range(3):
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + HOUR)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.scheduled_message_count, counts.active_message_count, counts.total_message_count) == (3, 0, 3)
    clock.advance(3601)
    counts = admin.get_queue_runtime_properties(queue_name)
    assert (counts.scheduled_message_count, counts.active_message_count, counts.total_message_count) == (0, 3, 3)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("early", [timedelta(0), HOUR, timedelta(days=365)], ids=str)
def test_time_in_the_past_means_now(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    early: timedelta,
    way: str,
) -> None:
    """A schedule for now or earlier makes the message active at once (B-234)."""
    schedule(way, sender, ServiceBusMessage(b"x"), clock.now() - early)
    assert str(receive_one(receiver)) == "x"


def test_messages_become_active_in_order_of_their_times(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """One jump of the clock over several times activates them by time (B-235)."""
    start = clock.now()
    for minutes in (30, 10, 20, 40, 5):
        message = ServiceBusMessage(str(minutes), partition_key="k")
        sender.schedule_messages(message, start + timedelta(minutes=minutes))
    clock.advance(35 * 60)
    assert [str(message) for message in drain(receiver)] == ["5", "10", "20", "30"]


def test_waiting_receiver_wakes_at_the_time(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A waiting receive gets the message when it is due (B-236, R-16)."""
    sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(seconds=30))
    waiting = in_background(receiver.receive_messages, max_wait_time=600)
    clock.advance(31)
    (message,) = waiting.result()
    assert str(message) == "x"


def test_offset_of_the_time_does_not_matter(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, drain: Callable[..., Any]
) -> None:
    """Times with different offsets can be the same instant (B-232)."""
    due = clock.now() + HOUR
    sender.schedule_messages(ServiceBusMessage(b"x"), due.astimezone(timezone(timedelta(hours=-7))))
    clock.advance(3599)
    assert drain(receiver) == []
    clock.advance(2)
    assert len(drain(receiver)) == 1


def test_activated_message_still_shows_its_schedule(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """An active message keeps `scheduled_enqueue_time_utc` (B-237)."""
    due = clock.now() + HOUR
    sender.schedule_messages(ServiceBusMessage(b"x"), due)
    clock.advance(3601)
    assert receive_one(receiver).scheduled_enqueue_time_utc == due


def test_cancelled_message_is_never_delivered(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Cancelling deletes the given pending messages (B-238, B-239, R-16)."""
    numbers = sender.schedule_messages(
        [ServiceBusMessage(str(number), partition_key="k") for number in range(5)], clock.now() + HOUR
    )
    sender.cancel_scheduled_messages(numbers[1])
    sender.cancel_scheduled_messages(numbers[3:])
    sender.cancel_scheduled_messages([])
    assert admin.get_queue_runtime_properties(queue_name).scheduled_message_count == 2
    clock.advance(3601)
    assert [str(message) for message in drain(receiver)] == ["0", "2"]


@pytest.mark.parametrize("reason", ["unknown", "cancelled", "activated", "never scheduled"])
def test_cancelling_fails_if_not_pending(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    queue_name: str,
    clock: ManualClock,
    snapshot: Callable[[str], object],
    reason: str,
) -> None:
    """Cancelling an unknown, cancelled or active number is a message not found and changes nothing (B-238)."""
    (number,) = sender.schedule_messages(ServiceBusMessage(b"x", partition_key="k"), clock.now() + HOUR)
    if reason == "unknown":
        number += 1000
    elif reason == "cancelled":
        sender.cancel_scheduled_messages(number)
    elif reason == "activated":
        clock.advance(3601)
    else:
        sender.send_messages(ServiceBusMessage(b"y", partition_key="k"))
        number += 1
    before = snapshot(queue_name)
    with pytest.raises(MessageNotFoundError) as refusal:
        sender.cancel_scheduled_messages(number)
    assert refusal.value.condition == "com.microsoft:message-not-found"
    assert snapshot(queue_name) == before
    assert receiver is not None


def test_cancelling_in_two_partitions_is_refused(
    client: ServiceBusClient,
    partitioned_queue: str,
    clock: ManualClock,
    key_in: Callable[..., str],
    snapshot: Callable[[str], object],
) -> None:
    """All numbers of one cancel must be of one partition; otherwise nothing is cancelled (B-239)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        numbers = [
            number
            for partition_id in (1, 2)
            for number in sender.schedule_messages(
                ServiceBusMessage(b"x", partition_key=key_in(partition_id)), clock.now() + HOUR
            )
        ]
        before = snapshot(partitioned_queue)
        with pytest.raises(InvalidOperationError, match="partition"):
            sender.cancel_scheduled_messages(numbers)
        assert snapshot(partitioned_queue) == before
        for number in numbers:
            sender.cancel_scheduled_messages(number)


def test_schedule_follows_the_partition_key(
    client: ServiceBusClient,
    partitioned_queue: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A scheduled message is pending and delivered in the partition of its key (B-087, B-239)."""
    keys = [f"key-{number}" for number in range(30)]
    with client.get_queue_sender(partitioned_queue) as sender:
        for key in keys:
            (number,) = sender.schedule_messages(ServiceBusMessage(key, partition_key=key), clock.now() + HOUR)
            assert number >> 48 == oxbus.partition_id(key)
    clock.advance(3601)
    with client.get_queue_receiver(partitioned_queue) as receiver:
        placed = {message.partition_key: message.partition_id for message in drain(receiver)}
    assert placed == {key: oxbus.partition_id(key) for key in keys}


def test_schedule_refuses_different_keys_on_one_message(
    sender: ServiceBusSender,
    queue_name: str,
    clock: ManualClock,
    snapshot: Callable[[str], object],
    with_two_keys: Callable[..., object],
) -> None:
    """The key rules of a send apply to a schedule (B-064, B-087)."""
    before = snapshot(queue_name)
    with pytest.raises(InvalidOperationError):
        with_two_keys(lambda message: sender.schedule_messages(message, clock.now() + HOUR))
    assert snapshot(queue_name) == before


def test_time_to_live_runs_from_activation(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Scheduled in 5 minutes with 10 minutes to live, a message expires after 15 (B-243)."""
    start = clock.now()
    for text in ("first", "second"):
        sender.schedule_messages(
            ServiceBusMessage(text, partition_key="k", time_to_live=timedelta(minutes=10)), start + timedelta(minutes=5)
        )
    clock.advance(14 * 60)
    message = receive_one(receiver)
    assert message.expires_at_utc == start + timedelta(minutes=15)
    receiver.complete_message(message)
    clock.advance(61)
    assert receiver.receive_messages(max_wait_time=0) == []


@pytest.mark.parametrize("when", [None, "tomorrow", 5], ids=repr)
def test_time_must_be_a_datetime(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], when: Any
) -> None:
    """A time that is not a datetime is a TypeError and schedules nothing (B-232)."""
    before = snapshot(queue_name)
    with pytest.raises((TypeError, ValueError)):
        sender.schedule_messages(ServiceBusMessage(b"x"), when)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("timeout", [0, -1])
def test_timeout_must_be_positive(sender: ServiceBusSender, clock: ManualClock, timeout: int) -> None:
    """A timeout of zero or less is a ValueError as in the SDK (B-232)."""
    with pytest.raises(ValueError, match="timeout"):
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + HOUR, timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        sender.cancel_scheduled_messages(1, timeout=timeout)


def test_far_future_is_possible(sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A message can be scheduled for the year 2999 (B-232)."""
    sender.schedule_messages(ServiceBusMessage(b"x"), datetime(2999, 1, 1, tzinfo=UTC))
    clock.advance(10 * 365 * 24 * 3600)
    assert receiver.receive_messages(max_wait_time=0) == []
    (peeked,) = receiver.peek_messages(sequence_number=1)
    assert peeked.scheduled_enqueue_time_utc == datetime(2999, 1, 1, tzinfo=UTC)
