# SPDX-License-Identifier: Apache-2.0
"""The duplicate history survives when a namespace is closed, or its process dies, and is opened again (B-226)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus.cli
import pytest
from durable_bus import WAYS, bodies
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from pathlib import Path

    from durable_bus import Bus
    from oxbus.testing import ManualClock

IDS = [f"id {number}" for number in range(30)]


@pytest.fixture
def detecting(bus: Bus, partitioned: bool) -> Bus:
    """The bus with an empty queue `q` with duplicate detection, partitioned if the fixture is True."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, requires_duplicate_detection=True)
    return bus


def send(bus: Bus, text: str, ids: list[str] | None = None) -> None:
    """Send a message for each id; its body is the text followed by the id."""
    with bus.sender() as sender:
        for message_id in IDS if ids is None else ids:
            sender.send_messages(ServiceBusMessage(f"{text} {message_id}", message_id=message_id))


@pytest.mark.parametrize("way", WAYS)
def test_ids_are_known_after_reopening(detecting: Bus, clock: ManualClock, way: str) -> None:
    """The ids of stored and of completed messages are known until their window ends (B-219, B-226)."""
    send(detecting, "first")
    messages = detecting.take()
    detecting.receiver().complete_messages(messages[:20])
    for message in messages[20:]:
        detecting.receiver().abandon_message(message)
    left = bodies(messages[20:])
    for _ in range(3):
        detecting.reopen(way)
        clock.advance(60)
        send(detecting, "copy")
        assert sorted(bodies(detecting.peek())) == sorted(left)
    clock.advance(600 - 3 * 60)
    send(detecting, "again", IDS[:5])
    assert sorted(bodies(detecting.peek())) == sorted([*left, *(f"again {message_id}" for message_id in IDS[:5])])


@pytest.mark.parametrize("way", WAYS)
def test_scheduled_and_batched_ids_are_known_after_reopening(detecting: Bus, clock: ManualClock, way: str) -> None:
    """The way in which a message was sent does not matter (B-225)."""
    due = clock.now() + timedelta(minutes=1)
    with detecting.sender() as sender:
        sender.schedule_messages([ServiceBusMessage("s", message_id="s")], due)
        sender.send_messages([ServiceBusMessage("b", message_id=each, partition_key="k") for each in ("b", "c", "b")])
    detecting.reopen(way)
    with detecting.sender() as sender:
        sender.send_messages(ServiceBusMessage("copy", message_id="s"))
        sender.send_messages([ServiceBusMessage("copy", message_id=each, partition_key="k") for each in ("c", "b")])
    assert sorted(bodies(detecting.peek())) == ["b", "b", "s"]


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_window_survives(detecting: Bus, clock: ManualClock, way: str) -> None:
    """The catalog keeps the window (B-224)."""
    queue = detecting.admin.get_queue("q")
    queue.duplicate_detection_history_time_window = timedelta(seconds=30)
    detecting.admin.update_queue(queue)
    send(detecting, "first", ["1"])
    detecting.reopen(way)
    queue = detecting.admin.get_queue("q")
    assert queue.requires_duplicate_detection is True
    assert queue.duplicate_detection_history_time_window == timedelta(seconds=30)
    clock.advance(29)
    send(detecting, "copy", ["1"])
    clock.advance(1)
    send(detecting, "second", ["1"])
    assert bodies(detecting.peek()) == ["first 1", "second 1"]


def test_a_dropped_copy_has_the_durability_it_requests(tmp_path: Path) -> None:
    """A dropped copy acknowledges the earlier message at the durability level of the copy (B-219)."""
    with Namespace(str(tmp_path / "bus"), durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", requires_duplicate_detection=True)
        with ServiceBusClient(namespace).get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("first", message_id="m"))
            assert sender.last_durability == "os"
            sender.send_messages(ServiceBusMessage("copy", message_id="m"), durability="fsync")
            assert sender.last_durability == "fsync"
            inject_fault(namespace, 0, "eio-fsync")
            for partition in range(1, 16):
                inject_fault(namespace, partition, "eio-fsync")
            sender.send_messages(ServiceBusMessage("second", message_id="n"))
            with pytest.raises(ServiceBusError):
                sender.send_messages(ServiceBusMessage("copy", message_id="n"), durability="fsync")


def test_a_salvaged_namespace_keeps_the_duplicate_history(detecting: Bus, tmp_path: Path) -> None:
    """Its store has another id; the identities of messages stay the same (B-226)."""
    send(detecting, "first")
    detecting.receiver().complete_messages(detecting.take()[:10])
    left = sorted(bodies(detecting.peek()))
    detecting.close()
    oxbus.cli.main(["salvage", str(detecting.path), str(tmp_path / "salvaged")])
    detecting.path = tmp_path / "salvaged"
    detecting.open()
    send(detecting, "copy")
    assert sorted(bodies(detecting.peek())) == left


def test_a_message_that_failed_to_be_stored_has_no_identity_in_the_history(detecting: Bus) -> None:
    """After the partitions are healed its id is free; those before it are known (B-219, B-074)."""
    send(detecting, "first", IDS[:10])
    for partition in range(4):
        inject_fault(detecting.namespace, partition, "eio-fsync")
    for message_id in IDS[10:]:
        with pytest.raises(ServiceBusError):
            send(detecting, "refused", [message_id])
    for partition in range(4):
        heal(detecting.namespace, partition)
    send(detecting, "second")
    expected = [f"first {each}" for each in IDS[:10]] + [f"second {each}" for each in IDS[10:]]
    assert sorted(bodies(detecting.peek())) == sorted(expected)
    detecting.reopen("crash")
    send(detecting, "copy")
    assert sorted(bodies(detecting.peek())) == sorted(expected)
