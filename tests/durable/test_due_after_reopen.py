# SPDX-License-Identifier: Apache-2.0
"""Messages that fell due while the directory was closed come before new sends (B-120, B-235, R-07).

A thread found the schedule empty while another was about to activate its messages, sent without waiting and got the
lower number: of eight threads that sent first, seven did.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import WAYS
from oxbus import ServiceBusMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus
    from oxbus.testing import ManualClock

DUE = 50
THREADS = 8
LOW_48_BITS = (1 << 48) - 1


def message(text: str) -> ServiceBusMessage:
    """A message to the one partition of these tests."""
    return ServiceBusMessage(text, partition_key="k")


def send_one(bus: Bus) -> None:
    """Send one message to the queue."""
    with bus.client.get_queue_sender("entity") as sender:
        sender.send_messages(message("sent"))


def send_list(bus: Bus) -> None:
    """Send a list."""
    with bus.client.get_queue_sender("entity") as sender:
        sender.send_messages([message("sent"), message("sent")])


def send_to_topic(bus: Bus) -> None:
    """Send one message to the topic."""
    with bus.client.get_topic_sender("entity") as sender:
        sender.send_messages(message("sent"))


def commit(bus: Bus) -> None:
    """Commit a transaction."""
    with bus.client.get_queue_sender("entity") as sender, bus.client.transaction() as transaction:
        sender.send_messages(message("sent"), transaction=transaction)


def forward(bus: Bus) -> None:
    """Send a message that another queue forwards to the queue."""
    with bus.client.get_queue_sender("source") as sender:
        sender.send_messages(message("sent"))


def publish(bus: Bus) -> None:
    """Commit a stage."""
    pa = pytest.importorskip("pyarrow")
    name = f"stage {threading.get_ident()}"
    stages = bus.namespace._stages()
    stages.stage("entity", name, pa.table({"body": [b"sent"], "partition_key": ["k"]}))
    assert stages.commit_stages(name, "query", 0, [name])


def send_table(bus: Bus) -> None:
    """Send a table."""
    pa = pytest.importorskip("pyarrow")
    with bus.client.get_queue_sender("entity") as sender:
        sender.send_arrow(pa.table({"body": [b"sent"], "partition_key": ["k"]}))


WORK = [send_one, send_list, send_to_topic, commit, forward, publish, send_table]


@pytest.fixture
def overdue(bus: Bus, clock: ManualClock, partitioned: bool) -> Callable[[Callable[[Bus], None], str], None]:
    """Schedule messages, let them fall due while the directory is closed, and open it."""

    def overdue(work: Callable[[Bus], None], way: str) -> None:
        is_topic = work is send_to_topic
        if is_topic:
            bus.admin.create_topic("entity", enable_partitioning=partitioned)
            bus.admin.create_subscription("entity", "all")
        else:
            bus.admin.create_queue("entity", enable_partitioning=partitioned)
            bus.admin.create_queue("source", enable_partitioning=partitioned, forward_to="entity")
        get: Any = bus.client.get_topic_sender if is_topic else bus.client.get_queue_sender
        with get("entity") as sender:
            due = clock.now() + timedelta(minutes=1)
            sender.schedule_messages([message("due") for _ in range(DUE)], due)
        bus.stop(way)
        clock.advance(61)
        bus.open()

    return overdue


def received(bus: Bus, work: Callable[[Bus], None]) -> tuple[list[int], list[int]]:
    """The numbers of the due messages, and of the others, in the order of their delivery."""
    if work is send_to_topic:
        receiver = bus.client.get_subscription_receiver("entity", "all", max_wait_time=0)
    else:
        receiver = bus.client.get_queue_receiver("entity", max_wait_time=0)
    numbers: dict[bool, list[int]] = {True: [], False: []}
    with receiver:
        for each in receiver:
            numbers[str(each) == "due"].append(each.sequence_number & LOW_48_BITS)
            receiver.complete_message(each)
    return numbers[True], numbers[False]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_first_send_follows_due_messages(
    bus: Bus, overdue: Callable[..., None], way: str, work: Callable[[Bus], None]
) -> None:
    """The first event after the open, of any kind, gets the higher number (B-235)."""
    overdue(work, way)
    work(bus)
    due, sent = received(bus, work)
    assert len(due) == DUE
    assert sent
    assert max(due) < min(sent)


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_first_sends_of_many_threads_follow_due_messages(
    bus: Bus, overdue: Callable[..., None], in_background: Callable[..., Any], work: Callable[[Bus], None]
) -> None:
    """A thread that does not activate the due messages itself waits until another one has done so (B-235)."""
    overdue(work, "close")
    together = threading.Barrier(THREADS)

    def begin() -> None:
        together.wait()
        work(bus)

    for call in [in_background(begin) for _ in range(THREADS)]:
        call.result()
    due, sent = received(bus, work)
    assert len(due) == DUE
    assert len(sent) >= THREADS
    assert max(due) < min(sent)
