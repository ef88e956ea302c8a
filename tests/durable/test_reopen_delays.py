# SPDX-License-Identifier: Apache-2.0
"""Delays of abandoned messages after the next open (B-468)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, Bus, bodies
from oxbus import ServiceBusMessageState

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.testing import ManualClock

ENDS = pytest.mark.parametrize("way", [*WAYS, "checkpoint and close"])


@pytest.fixture
def bus(tmp_path: Path, clock: ManualClock) -> Bus:
    """An open bus with the plain queue `q`."""
    bus = Bus(tmp_path / "bus", clock)
    bus.open()
    bus.admin.create_queue("q")
    return bus


@ENDS
def test_delay_outlives_the_process(bus: Bus, clock: ManualClock, way: str) -> None:
    """The next process keeps the delay, the count and the properties, and a second one as well."""
    bus.send("delayed", "free")
    delayed, free = bus.take()
    bus.receiver().abandon_message(delayed, properties_to_modify={"tried": 1}, delay=100)
    bus.receiver().complete_message(free)
    for _ in range(2):
        bus.reopen(way)
        (peeked,) = bus.peek()
        assert peeked.state == ServiceBusMessageState.SCHEDULED
        assert peeked.scheduled_enqueue_time_utc is not None
        assert (peeked.delivery_count, peeked.application_properties) == (1, {"tried": 1})
        assert bus.runtime().scheduled_message_count == 1
        assert bus.take() == []
    clock.advance(99.999)
    assert bus.take() == []
    clock.advance(0.001)
    again = bus.take()
    assert (bodies(again), [message.delivery_count for message in again]) == (["delayed"], [1])
    bus.receiver().complete_messages(again)
    bus.reopen(way)
    assert bus.peek() == []
    bus.close()


@ENDS
def test_delay_that_ends_while_no_process_runs(bus: Bus, clock: ManualClock, way: str) -> None:
    """The message is available at once."""
    bus.send("delayed")
    bus.receiver().abandon_messages(bus.take(), delay=timedelta(seconds=10))
    bus.stop(way)
    clock.advance(10)
    bus.open()
    assert bodies(bus.take()) == ["delayed"]
    bus.close()


@ENDS
def test_delivery_after_the_delay_replaces_it(bus: Bus, clock: ManualClock, way: str) -> None:
    """A message that was delivered again is available after the next open, and delayed again if it was abandoned so."""
    bus.send("once", "twice")
    bus.receiver().abandon_messages(bus.take(), delay=10)
    clock.advance(10)
    _, twice = bus.take()
    bus.receiver().abandon_message(twice, delay=1000)
    bus.reopen(way)
    (again,) = bus.take()
    assert (str(again), again.delivery_count) == ("once", 2)
    clock.advance(1000)
    assert "twice" in bodies(bus.take())
    bus.close()


@ENDS
def test_deferred_and_dead_lettered_messages(bus: Bus, clock: ManualClock, way: str) -> None:
    """A deferred message stays deferred, a dead letter stays a dead letter, both with their delay."""
    bus.send("deferred", "dead")
    deferred, dead = bus.take()
    receiver = bus.receiver()
    receiver.defer_message(deferred)
    receiver.abandon_messages(receiver.receive_deferred_messages(deferred.sequence_number or 0), delay=50)
    receiver.dead_letter_message(dead)
    bus.receiver(sub_queue="deadletter").abandon_messages(bus.take(sub_queue="deadletter"), delay=50)
    bus.reopen(way)
    assert bus.take(sub_queue="deadletter") == []
    assert [message.state for message in bus.peek()] == [ServiceBusMessageState.DEFERRED]
    clock.advance(50)
    assert bodies(bus.take(sub_queue="deadletter")) == ["dead"]
    assert bodies(bus.receiver().receive_deferred_messages(deferred.sequence_number or 0)) == ["deferred"]
    bus.close()


@ENDS
def test_session_still_waits(tmp_path: Path, clock: ManualClock, way: str) -> None:
    """Later messages of the session wait in the next process too."""
    bus = Bus(tmp_path / "bus", clock)
    bus.open()
    bus.admin.create_queue("q", requires_session=True)
    bus.send("0", "1", session_id="s")
    with bus.client.get_queue_receiver("q", session_id="s") as receiver:
        (first,) = receiver.receive_messages(1, max_wait_time=0)
        receiver.abandon_message(first, delay=100)
    bus.reopen(way)
    with bus.client.get_queue_receiver("q", session_id="s") as receiver:
        assert receiver.receive_messages(10, max_wait_time=0) == []
    clock.advance(100)
    with bus.client.get_queue_receiver("q", session_id="s") as receiver:
        assert bodies(receiver.receive_messages(10, max_wait_time=0)) == ["0", "1"]
    bus.close()


@pytest.mark.parametrize("memory_limit_bytes", [200_000])
def test_delayed_messages_under_a_memory_limit(tmp_path: Path, clock: ManualClock, memory_limit_bytes: int) -> None:
    """Messages whose bodies are on disk are delayed and come back complete."""
    bus = Bus(tmp_path / "bus", clock, memory_limit_bytes=memory_limit_bytes)
    bus.open()
    bus.admin.create_queue("q")
    texts = [f"{number} {'x' * 2000}" for number in range(300)]
    bus.send(*texts)
    bus.receiver().abandon_messages(bus.take(), delay=60)
    bus.reopen("checkpoint and crash")
    assert bus.take() == []
    clock.advance(60)
    assert bodies(bus.take()) == texts
    bus.close()
