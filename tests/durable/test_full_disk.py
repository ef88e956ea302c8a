# SPDX-License-Identifier: Apache-2.0
"""A full disk rejects calls that need space and accepts calls that free space (B-036, B-037)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from faulty_bus import BAD, GOOD, KEYS, heal_partition, in_bad
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import ServiceBusQuotaExceededError
from oxbus.testing import inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.testing import ManualClock


def test_sends_are_refused_as_over_quota(wide_bus: Bus, clock: ManualClock) -> None:
    """Keyed sends, batches and schedules get a transient quota error and store nothing (B-036)."""
    inject_fault(wide_bus.namespace, BAD, "enospc")
    with wide_bus.sender() as sender:
        calls: list[Callable[[], Any]] = [
            lambda: sender.send_messages(ServiceBusMessage("refused", partition_key=KEYS[BAD])),
            lambda: sender.send_messages([ServiceBusMessage("refused", session_id=KEYS[BAD]) for _ in range(5)]),
            lambda: sender.schedule_messages(
                ServiceBusMessage("refused", partition_key=KEYS[BAD]), clock.now() + timedelta(hours=1)
            ),
        ]
        for call in calls:
            with pytest.raises(ServiceBusQuotaExceededError) as refusal:
                call()
            assert refusal.value.is_transient
            assert refusal.value.condition == "amqp:resource-limit-exceeded"
    assert wide_bus.peek() == []
    wide_bus.reopen("crash")
    assert wide_bus.peek() == []


def test_other_partitions_take_messages(wide_bus: Bus) -> None:
    """Keyed messages of other partitions and all keyless ones are stored (B-073, B-099)."""
    inject_fault(wide_bus.namespace, BAD, "enospc")
    for partition_id in GOOD:
        wide_bus.send("keyed", partition_key=KEYS[partition_id])
    wide_bus.send(*("keyless" for _ in range(48)))
    assert {message.partition_id for message in wide_bus.peek()} == set(GOOD)
    assert len(wide_bus.take()) == 15 + 48


def test_receiving_and_settling_keep_working(wide_bus: Bus) -> None:
    """While the disk is full every settlement works and lasts (B-037, B-162 to B-165)."""
    names = ["completed", "abandoned", "deferred", "dead", "renewed", "taken"]
    wide_bus.send(*names, partition_key=KEYS[BAD])
    inject_fault(wide_bus.namespace, BAD, "enospc")
    receiver = wide_bus.receiver()
    completed, abandoned, deferred, dead, renewed = (wide_bus.take_one() for _ in range(5))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with wide_bus.client.get_queue_receiver("q", receive_mode=mode) as taker:
        assert bodies(taker.receive_messages(max_wait_time=5)) == ["taken"]
    receiver.complete_message(completed)
    receiver.abandon_message(abandoned)
    receiver.defer_message(deferred)
    receiver.dead_letter_message(dead, "why")
    receiver.renew_message_lock(renewed)
    (fetched,) = receiver.receive_deferred_messages(deferred.sequence_number)
    receiver.abandon_message(fetched)
    assert bodies(wide_bus.peek()) == ["abandoned", "deferred", "renewed"]
    wide_bus.reopen("crash")
    assert [(str(message), message.delivery_count) for message in wide_bus.peek()] == [
        ("abandoned", 1),
        ("deferred", 1),
        ("renewed", 1),
    ]
    assert bodies(wide_bus.peek(sub_queue="deadletter")) == ["dead"]


def test_a_full_partition_can_be_drained(wide_bus: Bus) -> None:
    """Hundreds of completes in a row work while the disk is full, so that it can be drained (B-037)."""
    with wide_bus.sender() as sender:
        for _ in range(5):
            sender.send_messages([ServiceBusMessage(b"x" * 500, partition_key=KEYS[BAD]) for _ in range(100)])
    inject_fault(wide_bus.namespace, BAD, "enospc")
    for message in wide_bus.take():
        wide_bus.receiver().complete_message(message)
    with pytest.raises(ServiceBusQuotaExceededError):
        wide_bus.send("refused", partition_key=KEYS[BAD])
    assert wide_bus.runtime().total_message_count == 0
    wide_bus.reopen("crash")
    assert wide_bus.runtime().total_message_count == 0


def test_sends_work_again_when_there_is_space(wide_bus: Bus) -> None:
    """Once the disk has space again, sends are accepted, after earlier messages and under new numbers (B-105)."""
    wide_bus.send("before", partition_key=KEYS[BAD])
    for step in range(3):
        inject_fault(wide_bus.namespace, BAD, "enospc")
        with pytest.raises(ServiceBusQuotaExceededError):
            wide_bus.send("refused", partition_key=KEYS[BAD])
        heal_partition(wide_bus)
        wide_bus.send(f"after {step}", partition_key=KEYS[BAD])
    wide_bus.reopen("crash")
    messages = in_bad(wide_bus.take())
    assert bodies(messages) == ["before", "after 0", "after 1", "after 2"]
    numbers = [message.sequence_number for message in messages]
    assert numbers == sorted(set(numbers))


def test_reopening_while_full_loses_nothing(wide_bus: Bus) -> None:
    """A namespace that was full when it was closed opens with all its messages (B-037)."""
    wide_bus.send("kept", "completed", partition_key=KEYS[BAD])
    inject_fault(wide_bus.namespace, BAD, "enospc")
    messages = wide_bus.take()
    wide_bus.receiver().complete_message(messages[1])
    wide_bus.reopen()
    assert bodies(wide_bus.take()) == ["kept"]
    wide_bus.send("after", partition_key=KEYS[BAD])
