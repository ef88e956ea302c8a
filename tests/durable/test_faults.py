# SPDX-License-Identifier: Apache-2.0
"""One of sixteen partitions in a directory fails: which calls still work, and the state after healing and reopening.

The whole matrix of docs/behaviour.md section 3.1 is in tests/contract/outage.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from faulty_bus import ALL, BAD, GOOD, KEYS, STOPPING, UNACKNOWLEDGED, fail_partition, heal_partition, in_bad, status
from oxbus import ServiceBusMessage
from oxbus.exceptions import PartitionUnavailableError
from oxbus.management import EntityAvailabilityStatus
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.testing import ManualClock


def send_until_refused(bus: Bus, most: int) -> list[str]:
    """Send numbers to the bad partition one by one until it rejects one; return the acknowledged ones."""
    acknowledged: list[str] = []
    try:
        for number in range(most):
            bus.send(str(number), partition_key=KEYS[BAD])
            acknowledged.append(str(number))
    except PartitionUnavailableError:
        pass
    return acknowledged


@pytest.mark.parametrize("fault", STOPPING)
def test_every_verb_on_the_faulted_partition_fails(wide_bus: Bus, clock: ManualClock, fault: str) -> None:
    """Send, schedule, cancel, fetch, settle and renew fail as transient and can be repeated (B-074, B-095)."""
    wide_bus.send("held", "deferred", partition_key=KEYS[BAD])
    due = clock.now() + timedelta(minutes=5)
    with wide_bus.sender() as sender:
        (scheduled,) = sender.schedule_messages(ServiceBusMessage("scheduled", partition_key=KEYS[BAD]), due)
    receiver = wide_bus.receiver()
    held, deferred = wide_bus.take()
    receiver.defer_message(deferred)
    fail_partition(wide_bus, fault)
    with wide_bus.sender() as sender:
        calls: list[Callable[[], Any]] = [
            lambda: sender.send_messages(ServiceBusMessage(UNACKNOWLEDGED, session_id=KEYS[BAD])),
            lambda: sender.send_messages(
                [ServiceBusMessage(UNACKNOWLEDGED, partition_key=KEYS[BAD]) for _ in range(3)]
            ),
            lambda: sender.schedule_messages(ServiceBusMessage(UNACKNOWLEDGED, partition_key=KEYS[BAD]), due),
            lambda: sender.cancel_scheduled_messages(scheduled),
            lambda: receiver.receive_deferred_messages(deferred.sequence_number),
            lambda: receiver.complete_message(held),
            lambda: receiver.abandon_message(held),
            lambda: receiver.defer_message(held),
            lambda: receiver.dead_letter_message(held),
            lambda: receiver.renew_message_lock(held),
        ]
        for call in calls:
            with pytest.raises(PartitionUnavailableError) as refusal:
                call()
            assert refusal.value.is_transient
        heal_partition(wide_bus)
        sender.cancel_scheduled_messages(scheduled)
    (fetched,) = receiver.receive_deferred_messages(deferred.sequence_number)
    receiver.complete_message(fetched)
    assert bodies(wide_bus.peek()) == ["held"]
    wide_bus.reopen("crash")
    assert bodies(wide_bus.take()) == ["held"]


@pytest.mark.parametrize("fault", STOPPING)
def test_other_partitions_keep_working(wide_bus: Bus, fault: str) -> None:
    """Keyed and keyless sends, receives and settlements of 15 partitions are not affected (B-073, B-093, B-099)."""
    for partition_id in ALL:
        wide_bus.send(f"before {partition_id}", partition_key=KEYS[partition_id])
    fail_partition(wide_bus, fault)
    for partition_id in GOOD:
        wide_bus.send(f"keyed {partition_id}", partition_key=KEYS[partition_id])
    wide_bus.send(*(f"keyless {number}" for number in range(48)))
    with wide_bus.sender() as sender:
        sender.send_messages([ServiceBusMessage("batch") for _ in range(4)])
    messages = wide_bus.take()
    assert {message.partition_id for message in messages} == set(GOOD)
    assert {message.partition_id for message in wide_bus.peek()} == set(GOOD)
    assert len(messages) == 15 + 15 + 48 + 4
    wide_bus.receiver().complete_messages(messages)
    heal_partition(wide_bus)
    assert bodies(wide_bus.take()) == [f"before {BAD}"]
    wide_bus.reopen("crash")
    assert bodies(wide_bus.take()) == [f"before {BAD}"]


@pytest.mark.parametrize("fault", STOPPING)
def test_health_and_counts_show_the_fault(wide_bus: Bus, fault: str) -> None:
    """One entry has a reason, the queue reads Limited, and its sums lack that partition, until it heals (B-097)."""
    for partition_id in ALL:
        wide_bus.send("x", partition_key=KEYS[partition_id])
    assert wide_bus.runtime().availability_status == EntityAvailabilityStatus.AVAILABLE
    fail_partition(wide_bus, fault)
    health = wide_bus.namespace.partition_health()
    assert [entry.partition_id for entry in health] == list(ALL)
    assert [entry.partition_id for entry in health if entry.status != "healthy"] == [BAD]
    assert health[BAD].reason
    assert {entry.reason for entry in health if entry.partition_id != BAD} == {None}
    runtime = wide_bus.runtime()
    assert runtime.availability_status == EntityAvailabilityStatus.LIMITED
    assert wide_bus.admin.get_queue("q").availability_status == EntityAvailabilityStatus.LIMITED
    assert [partition.available for partition in runtime.partitions] == [number != BAD for number in ALL]
    assert runtime.total_message_count == len(GOOD)
    heal_partition(wide_bus)
    assert wide_bus.namespace.partition_health()[BAD].reason is None
    assert wide_bus.runtime().availability_status == EntityAvailabilityStatus.AVAILABLE
    assert wide_bus.runtime().total_message_count == len(ALL)


@pytest.mark.parametrize("fault", STOPPING)
def test_queues_are_not_changed_while_a_partition_is_down(wide_bus: Bus, fault: str) -> None:
    """Creating, updating and deleting need all partitions; a rejected change did not happen and never will (B-096)."""
    fail_partition(wide_bus, fault)
    queue = wide_bus.admin.get_queue("q")
    queue.max_delivery_count = 3
    for call in (
        lambda: wide_bus.admin.create_queue("new", enable_partitioning=True),
        lambda: wide_bus.admin.update_queue(queue),
        lambda: wide_bus.admin.delete_queue("q"),
    ):
        with pytest.raises(PartitionUnavailableError):
            call()
    assert [each.name for each in wide_bus.admin.list_queues()] == ["q"]
    heal_partition(wide_bus)
    wide_bus.reopen()
    assert [each.name for each in wide_bus.admin.list_queues()] == ["q"]
    assert wide_bus.admin.get_queue("q").max_delivery_count == 10
    wide_bus.admin.update_queue(queue)
    wide_bus.admin.create_queue("new", enable_partitioning=True)
    wide_bus.reopen()
    assert wide_bus.admin.get_queue("q").max_delivery_count == 3


@pytest.mark.parametrize("fault", STOPPING)
def test_fault_ends_with_the_open_namespace(wide_bus: Bus, fault: str) -> None:
    """A faulted namespace closes without an error, and the next open is healthy with all stored messages (B-095)."""
    wide_bus.send("before", partition_key=KEYS[BAD])
    fail_partition(wide_bus, fault)
    wide_bus.reopen()
    assert status(wide_bus) == "healthy"
    assert bodies(in_bad(wide_bus.take())) == ["before"]
    wide_bus.send("after", partition_key=KEYS[BAD])


def test_fault_begins_after_some_operations(wide_bus: Bus) -> None:
    """`after` lets some operations through first; all acknowledged messages exist afterwards (B-093)."""
    inject_fault(wide_bus.namespace, BAD, "eio-write", after=5)
    acknowledged = send_until_refused(wide_bus, 1000)
    assert 0 < len(acknowledged) < 1000
    heal_partition(wide_bus)
    assert bodies(wide_bus.take()) == acknowledged


def test_slow_partition_is_only_slow(wide_bus: Bus) -> None:
    """With a delay at each operation all messages are acknowledged, in order, and survive (B-101)."""
    inject_fault(wide_bus.namespace, BAD, "latency:0.05")
    wide_bus.send(*(str(number) for number in range(8)), partition_key=KEYS[BAD])
    wide_bus.send(*("elsewhere" for _ in range(8)), partition_key=KEYS[4])
    messages = in_bad(wide_bus.take())
    assert bodies(messages) == [str(number) for number in range(8)]
    wide_bus.receiver().complete_messages(messages[:4])
    heal(wide_bus.namespace, BAD)
    wide_bus.reopen("crash")
    assert bodies(in_bad(wide_bus.take())) == [str(number) for number in range(4, 8)]


def test_flipped_bit_is_never_delivered(wide_bus: Bus) -> None:
    """Bytes that change on the way to the disk cause an error or an offline partition, never a message (B-093)."""
    inject_fault(wide_bus.namespace, BAD, "bit-flip")
    acknowledged = send_until_refused(wide_bus, 20)
    assert len(acknowledged) == 20 or status(wide_bus) != "healthy"
    for partition_id in GOOD:
        wide_bus.send("good", partition_key=KEYS[partition_id])
    assert set(bodies(in_bad(wide_bus.peek()))) <= set(acknowledged)
    namespace = wide_bus.reopen("crash")
    assert namespace.recovery is not None
    assert [body for body in bodies(wide_bus.peek()) if body == "good"] == ["good"] * len(GOOD)
    found = bodies(in_bad(wide_bus.peek()))
    if list(namespace.recovery.corrupt_partitions) == [BAD]:
        assert (status(wide_bus), found) == ("offline", [])
    else:
        # A damaged end looks like one that was never synced; recovery cuts it and reports the cut.
        assert list(namespace.recovery.corrupt_partitions) == []
        assert found == acknowledged[: len(found)]
        assert len(found) == len(acknowledged) or namespace.recovery.truncated_bytes > 0
