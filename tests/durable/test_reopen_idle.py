# SPDX-License-Identifier: Apache-2.0
"""Idle times, deleted entities and statuses after a reopen (B-382 to B-388, B-396)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import CLEAN_WAYS, WAYS, Bus
from oxbus import ServiceBusMessage
from oxbus.exceptions import MessagingEntityDisabledError, MessagingEntityNotFoundError
from oxbus.management import EntityStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.testing import ManualClock

IDLE = timedelta(minutes=5)
NEARLY = IDLE.total_seconds() - 1


def names(bus: Bus) -> list[str]:
    """Names of all queues."""
    return [queue.name for queue in bus.admin.list_queues()]


@pytest.mark.parametrize("way", [*CLEAN_WAYS, "checkpoint and crash"])
def test_idle_time_continues(bus: Bus, clock: ManualClock, partitioned: bool, way: str) -> None:
    """Uses before the reopen count after it, and so does the time in between, open or not (B-382, B-388)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, auto_delete_on_idle=IDLE)
    clock.advance(NEARLY)
    bus.peek()
    used = clock.now()
    bus.reopen(way)
    assert bus.admin.get_queue("q").auto_delete_on_idle == IDLE
    assert bus.runtime().accessed_at_utc == used
    clock.advance(NEARLY)
    assert names(bus) == ["q"]
    bus.reopen(way)
    clock.advance(1)
    assert names(bus) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_send_is_a_use_even_if_the_process_dies(bus: Bus, clock: ManualClock, way: str) -> None:
    """The newest stored message shows when its queue was last used, whatever else was written (B-383)."""
    bus.admin.create_queue("q", auto_delete_on_idle=IDLE)
    clock.advance(NEARLY)
    bus.send("x")
    bus.reopen(way)
    clock.advance(NEARLY)
    assert [str(message) for message in bus.peek()] == ["x"]


@pytest.mark.parametrize("way", WAYS)
def test_deleted_idle_queue_stays_deleted(bus: Bus, clock: ManualClock, partitioned: bool, way: str) -> None:
    """An idle queue is gone with its messages; a new one of its name starts empty (B-382)."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, auto_delete_on_idle=IDLE)
    bus.send("x", "y")
    clock.advance(IDLE.total_seconds())
    assert names(bus) == []
    bus.reopen(way)
    assert names(bus) == []
    with pytest.raises(MessagingEntityNotFoundError):
        bus.send("z")
    bus.admin.create_queue("q", enable_partitioning=partitioned)
    assert bus.peek() == []


def test_queue_becomes_idle_while_the_directory_is_closed(bus: Bus, clock: ManualClock) -> None:
    """Time passes for a closed directory: a queue that was idle too long is gone at the next open (B-382)."""
    bus.admin.create_queue("q", auto_delete_on_idle=IDLE)
    bus.admin.create_queue("stays")
    bus.admin.create_topic("t", auto_delete_on_idle=IDLE)
    bus.admin.create_subscription("t", "s")
    bus.admin.create_topic("kept")
    bus.admin.create_subscription("kept", "s", auto_delete_on_idle=IDLE)
    bus.stop("close")
    clock.advance(IDLE.total_seconds())
    bus.open()
    assert names(bus) == ["stays"]
    assert [topic.name for topic in bus.admin.list_topics()] == ["kept"]
    assert list(bus.admin.list_subscriptions("kept")) == []


def test_scheduled_messages_keep_the_queue(bus: Bus, clock: ManualClock) -> None:
    """A scheduled message keeps its queue over a reopen (B-245)."""
    bus.admin.create_queue("q", auto_delete_on_idle=IDLE)
    with bus.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("later"), clock.now() + timedelta(hours=1))
    bus.stop("close")
    clock.advance(3599)
    bus.open()
    assert names(bus) == ["q"]
    clock.advance(1)
    assert bus.runtime().active_message_count == 1


def test_owner_of_some_partitions_deletes_no_idle_queue(
    make_bus: Callable[..., Bus], clock: ManualClock, tmp_path: Path
) -> None:
    """Other owners may use an entity that this process does not: it does not count as idle here (B-383)."""
    bus: Any = make_bus("shared")
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True, auto_delete_on_idle=IDLE)
    bus.reopen("close", partitions_owned=[0, 1])
    clock.advance(86_400)
    assert names(bus) == ["q"]
    bus.reopen("close")
    assert names(bus) == []
    assert tmp_path.exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED])
def test_status_is_kept(bus: Bus, way: str, status: EntityStatus) -> None:
    """A disabled queue is disabled after the reopen, and keeps its messages (B-396, B-397)."""
    queue = bus.admin.create_queue("q")
    bus.send("x")
    queue.status = status
    bus.admin.update_queue(queue)
    bus.reopen(way)
    assert bus.admin.get_queue("q").status == status
    if status != EntityStatus.RECEIVE_DISABLED:
        with pytest.raises(MessagingEntityDisabledError):
            bus.send("y")
    if status != EntityStatus.SEND_DISABLED:
        with pytest.raises(MessagingEntityDisabledError):
            bus.take()
    queue.status = EntityStatus.ACTIVE
    bus.admin.update_queue(queue)
    assert [str(message) for message in bus.take()] == ["x"]
