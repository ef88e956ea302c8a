# SPDX-License-Identifier: Apache-2.0
"""The level that a send reaches: the namespace's, unless the send requests another one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import bodies
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, MessageSizeExceededError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus
    from oxbus.testing import ManualClock

LEVELS = ("fsync", "os")
NO_LEVELS: list[Any] = ["disk", "FSYNC", "", "os ", "memory"]
REFUSALS = (InvalidOperationError, ValueError)


@pytest.fixture
def open_at(make_bus: Callable[..., Bus]) -> Callable[[str | None], Bus]:
    """Open a namespace of a level with a partitioned queue."""

    def open_at(level: str | None) -> Bus:
        bus = make_bus(durability=level)
        bus.open()
        bus.admin.create_queue("q", enable_partitioning=True)
        return bus

    return open_at


@pytest.mark.parametrize(("given", "reached"), [(None, "fsync"), ("fsync", "fsync"), ("os", "os")])
def test_level_of_the_namespace(
    open_at: Callable[..., Bus], clock: ManualClock, given: str | None, reached: str
) -> None:
    """A send reaches the level of its namespace, `fsync` by default; before the first send there is none (B-174)."""
    bus = open_at(given)
    with bus.sender() as sender:
        before = sender.last_durability
        sender.send_messages(ServiceBusMessage("one"))
        assert (before, sender.last_durability) == (None, reached)
    with bus.sender() as sender:
        sender.send_messages([ServiceBusMessage("listed") for _ in range(3)])
        assert sender.last_durability == reached
    with bus.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("later"), clock.now() + timedelta(hours=1))
        assert sender.last_durability == reached


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("asked", LEVELS)
def test_level_of_one_send(open_at: Callable[..., Bus], level: str, asked: str) -> None:
    """A send may request a higher or lower level; the next one has the level of the namespace again (B-174)."""
    bus = open_at(level)
    with bus.sender() as sender, bus.sender() as other:
        sender.send_messages(ServiceBusMessage("asked"), durability=asked)
        assert sender.last_durability == asked
        assert other.last_durability is None
        sender.send_messages(ServiceBusMessage("default"))
        assert sender.last_durability == level
        sender.send_messages([ServiceBusMessage("listed") for _ in range(2)], durability=asked)
        assert sender.last_durability == asked
        sender.send_messages(ServiceBusMessage("default"), durability=None)
        assert sender.last_durability == level


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["close", "crash"])
def test_every_level_outlives_the_process(open_at: Callable[..., Bus], level: str, way: str) -> None:
    """Sends and settlements acknowledged at either level survive the end of the process (B-162, B-174)."""
    bus = open_at(level)
    bus.send(*(f"completed {number}" for number in range(10)))
    bus.receiver().complete_messages(bus.take())
    with bus.sender() as sender:
        for number in range(10):
            sender.send_messages(ServiceBusMessage(f"kept {number}"), durability=LEVELS[number % 2])
    bus.reopen(way)
    assert sorted(bodies(bus.take())) == [f"kept {number}" for number in range(10)]


def test_level_may_differ_at_each_open(open_at: Callable[..., Bus]) -> None:
    """The level belongs to the open namespace, not to its directory (B-174)."""
    bus = open_at("fsync")
    for level in ("os", "fsync", None, "os"):
        bus.reopen(durability=level)
        with bus.sender() as sender:
            sender.send_messages(ServiceBusMessage("x"))
            assert sender.last_durability == (level or "fsync")
    assert bus.runtime().total_message_count == 4


@pytest.mark.parametrize("bad", NO_LEVELS)
def test_send_with_a_bad_level_stores_nothing(open_at: Callable[..., Bus], bad: str) -> None:
    """A level that a durable send cannot have is rejected, the error names it, and nothing is stored (B-174)."""
    bus = open_at(None)
    with bus.sender() as sender:
        sender.send_messages(ServiceBusMessage("good"), durability="os")
        with pytest.raises(REFUSALS, match="durability"):
            sender.send_messages(ServiceBusMessage("bad"), durability=bad)
        assert sender.last_durability == "os"
    bus.reopen()
    assert bodies(bus.take()) == ["good"]


@pytest.mark.parametrize("bad", [1, b"os", ["os"]])
def test_level_must_be_a_string(open_at: Callable[..., Bus], bad: Any) -> None:
    """A level of another type is a TypeError (argument checks)."""
    bus = open_at(None)
    with bus.sender() as sender, pytest.raises(TypeError):
        sender.send_messages(ServiceBusMessage("bad"), durability=bad)
    assert bus.peek() == []


def test_refused_send_reaches_no_level(open_at: Callable[..., Bus]) -> None:
    """A failed send does not change the level of the last successful one (B-174)."""
    bus = open_at("os")
    bus.admin.create_queue("small", max_message_size_in_kilobytes=1)
    with bus.sender("small") as sender:
        for before in (None, "fsync"):
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(ServiceBusMessage(b"x" * 2000))
            assert sender.last_durability == before
            sender.send_messages(ServiceBusMessage(b"x"), durability="fsync")


@pytest.mark.parametrize("bad", NO_LEVELS)
def test_namespace_with_a_bad_level_is_not_made(tmp_path: Path, bad: str) -> None:
    """A directory cannot have an unknown level or `memory`; the namespace is not created (argument checks)."""
    with pytest.raises(REFUSALS, match="durability"):
        Namespace(str(tmp_path / "bus"), durability=bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("level", LEVELS)
def test_memory_rejects_the_levels_of_files(level: str) -> None:
    """A namespace in memory rejects the levels of files, for itself and for a send (argument checks)."""
    with pytest.raises(REFUSALS):
        Namespace(durability=level)
    with Namespace() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        with ServiceBusClient(namespace).get_queue_sender("q") as sender:
            with pytest.raises(REFUSALS):
                sender.send_messages(ServiceBusMessage("x"), durability=level)
            sender.send_messages(ServiceBusMessage("x"))
            assert sender.last_durability == "memory"
        assert ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q").total_message_count == 1
    assert namespace.recovery is None


def test_arrow_rows_have_the_level_of_the_namespace(open_at: Callable[..., Bus]) -> None:
    """Rows that `send_arrow` stored are as durable as messages (B-174)."""
    pa = pytest.importorskip("pyarrow")
    bus = open_at("os")
    with bus.sender() as sender:
        sender.send_arrow(pa.table({"body": pa.array([b"1", b"2", b"3"], pa.binary())}))
        assert sender.last_durability == "os"
    bus.reopen("crash")
    assert sorted(bodies(bus.take())) == ["1", "2", "3"]
