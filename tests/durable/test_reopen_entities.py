# SPDX-License-Identifier: Apache-2.0
"""Queues, their options and their sequence numbers after a reopen."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from durable_bus import CLEAN_WAYS, WAYS, Bus, bodies
from oxbus import ServiceBusMessage
from oxbus.exceptions import (
    MessageNotFoundError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)
from oxbus.management import EntityStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.testing import ManualClock

OPTIONS: dict[str, Any] = {
    "lock_duration": timedelta(seconds=30),
    "max_delivery_count": 3,
    "default_message_time_to_live": timedelta(days=14),
    "dead_lettering_on_message_expiration": True,
    "max_size_in_megabytes": 2048,
    "user_metadata": "schlüssel 鍵",
    "enable_batched_operations": False,
    "enable_express": True,
    "max_message_size_in_kilobytes": 512,
}
LOW_48_BITS = (1 << 48) - 1


def options(bus: Bus) -> dict[str, dict[str, Any]]:
    """The options of all queues, by name."""
    return {queue.name: dict(queue.items()) for queue in bus.admin.list_queues()}


def numbers(bus: Bus) -> list[tuple[int, int]]:
    """Partition and counter of each message of the queue."""
    return [(message.sequence_number >> 48, message.sequence_number & LOW_48_BITS) for message in bus.peek()]


@pytest.mark.parametrize("way", WAYS)
def test_queues_and_their_options_survive(bus: Bus, clock: ManualClock, way: str) -> None:
    """Names with their casing, every option and the times of creation and change are kept (B-018, B-022)."""
    bus.admin.create_queue("Defaults")
    bus.admin.create_queue("a/b-c.d_e", enable_partitioning=True, **OPTIONS)
    clock.advance(5)
    changed = bus.admin.create_queue("changed", enable_partitioning=True)
    clock.advance(5)
    changed.max_delivery_count = 7
    bus.admin.update_queue(changed)
    before = options(bus)
    times = [(bus.runtime(name).created_at_utc, bus.runtime(name).updated_at_utc) for name in before]
    clock.advance(5)
    bus.reopen(way)
    assert options(bus) == before
    assert sorted(before) == ["Defaults", "a/b-c.d_e", "changed"]
    assert OPTIONS.items() <= before["a/b-c.d_e"].items()
    assert before["changed"]["max_delivery_count"] == 7
    assert [(bus.runtime(name).created_at_utc, bus.runtime(name).updated_at_utc) for name in before] == times
    assert bus.admin.get_queue("DEFAULTS").name == "Defaults"
    with pytest.raises(MessagingEntityAlreadyExistsError):
        bus.admin.create_queue("defaults")


@pytest.mark.parametrize("way", WAYS)
def test_options_are_in_force(bus: Bus, clock: ManualClock, way: str) -> None:
    """The options still take effect after the reopen; they are not only displayed (B-151, B-178, B-247)."""
    bus.admin.create_queue("q", **OPTIONS)
    bus.reopen(way)
    bus.send("x")
    message = bus.take_one()
    assert message.locked_until_utc == clock.now() + timedelta(seconds=30)
    assert message.expires_at_utc == clock.now() + timedelta(days=14)
    bus.receiver().abandon_message(message)
    for _ in range(2):
        bus.receiver().abandon_message(bus.take_one())
    assert bus.runtime().dead_letter_message_count == 1


@pytest.mark.parametrize("way", WAYS)
def test_disabled_queue_stays_disabled(queue: Bus, way: str) -> None:
    """A queue that rejects sends keeps rejecting them and keeps its messages (B-396, B-397)."""
    queue.send("x")
    properties = queue.admin.get_queue("q")
    properties.status = EntityStatus.DISABLED
    queue.admin.update_queue(properties)
    queue.reopen(way)
    with pytest.raises(MessagingEntityDisabledError):
        queue.send("y")
    properties.status = EntityStatus.ACTIVE
    queue.admin.update_queue(properties)
    queue.reopen(way)
    assert bodies(queue.take()) == ["x"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("recreated", ["before", "after", "both"])
def test_deleted_queue_stays_deleted(queue: Bus, recreated: str, way: str, partitioned: bool) -> None:
    """A deleted queue is gone with all its messages, and a new one of its name does not inherit any (B-259)."""
    for number in range(8):
        queue.send(f"old {number}", partition_key=f"key-{number}")
    deferred, dead = queue.take_one(), queue.take_one()
    queue.receiver().defer_message(deferred)
    queue.receiver().dead_letter_message(dead)
    queue.admin.delete_queue("q")
    if recreated != "after":
        queue.admin.create_queue("q", enable_partitioning=partitioned)
    if recreated == "both":
        queue.send("between")
        queue.admin.delete_queue("q")
    queue.reopen(way)
    if recreated != "before":
        with pytest.raises(MessagingEntityNotFoundError):
            queue.admin.get_queue("q")
        assert options(queue) == {}
        queue.admin.create_queue("q", enable_partitioning=partitioned)
    assert queue.peek() == queue.peek(sub_queue="deadletter") == []
    assert queue.runtime().total_message_count == 0
    with pytest.raises(MessageNotFoundError):
        queue.receiver().receive_deferred_messages(deferred.sequence_number)
    queue.send("new")
    queue.reopen(way)
    assert bodies(queue.take()) == ["new"]


@pytest.mark.parametrize("way", WAYS)
def test_queue_may_change_its_kind(bus: Bus, way: str) -> None:
    """A queue that is deleted and recreated with or without partitioning keeps nothing of the old one (B-008)."""
    for flag in (False, True, False):
        bus.admin.create_queue("q", enable_partitioning=flag)
        assert bus.peek() == []
        bus.send(*(str(number) for number in range(8)))
        bus.reopen(way)
        assert bus.admin.get_queue("q").enable_partitioning is flag
        assert sorted(bodies(bus.peek())) == [str(number) for number in range(8)]
        assert len({message.partition_id for message in bus.peek()}) == (4 if flag else 1)
        bus.admin.delete_queue("q")


@pytest.mark.parametrize("way", CLEAN_WAYS)
def test_numbers_continue_without_a_gap(queue: Bus, way: str) -> None:
    """After a clean close each partition counts on by one, whether its messages are still there or not (B-105)."""
    keys = [f"key-{number}" for number in range(12)]
    sent = 0
    for _ in range(3):
        for key in keys:
            queue.send("x", partition_key=key)
            sent += 1
        partitions = {partition for partition, _ in numbers(queue)}
        for partition in partitions:
            counters = [counter for p, counter in numbers(queue) if p == partition]
            assert counters == list(range(counters[0], counters[0] + len(counters)))
        assert sum(max(c for p, c in numbers(queue) if p == partition) for partition in partitions) == sent
        queue.receiver().complete_messages(queue.take())
        queue.reopen(way)
        queue.reopen(way)


def test_numbers_are_never_used_again(queue: Bus, clock: ManualClock) -> None:
    """The number of a message is never reused, in whatever way the message and the process ended (B-103, B-105)."""
    used: set[int] = set()
    for step in range(8):
        with queue.sender() as sender:
            sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(3)])
            (number,) = sender.schedule_messages(
                ServiceBusMessage("later", partition_key="k"), clock.now() + timedelta(days=1)
            )
            sender.cancel_scheduled_messages(number)
        given = [message.sequence_number for message in queue.peek()] + [number]
        assert len(given) == 4
        assert min(given) > max(used, default=0)
        used.update(given)
        queue.receiver().complete_messages(queue.take())
        queue.reopen(WAYS[step % len(WAYS)])


@pytest.mark.parametrize("way", WAYS)
def test_partitions_are_fixed_at_creation(make_bus: Callable[..., Bus], way: str) -> None:
    """A namespace keeps its number of partitions, and its keys their partitions, when no number is given (B-062)."""
    bus = make_bus(partitions=7)
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    keys = [f"key-{number}" for number in range(30)]
    for key in keys:
        bus.send(key, partition_key=key)
    bus.reopen(way, partitions=None)
    assert bus.namespace.partitions == 7
    for key in keys:
        bus.send(key, partition_key=key)
    places = {(str(message), message.partition_id) for message in bus.peek()}
    assert places == {(key, oxbus.partition_id(key, 7)) for key in keys}


def test_sixteen_partitions_by_default(make_bus: Callable[..., Bus]) -> None:
    """A new namespace has 16 partitions, also when it is opened again (B-004)."""
    bus = make_bus(partitions=None)
    assert bus.open().partitions == 16
    assert bus.reopen().partitions == 16
    assert bus.reopen(partitions=16).partitions == 16


def test_parent_directories_are_made(make_bus: Callable[..., Bus]) -> None:
    """Opening creates the directory and its parents, and accepts an existing empty one (docs/format.md)."""
    bus = make_bus("some/where/bus")
    bus.open()
    empty = make_bus("empty")
    empty.path.mkdir()
    empty.open()
    for each in (bus, empty):
        each.admin.create_queue("q")
        each.reopen()
        assert list(options(each)) == ["q"]
