# SPDX-License-Identifier: Apache-2.0
"""A disk that hangs while a send waits for it: its late write never counts."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from faulty_bus import BAD, GOOD, KEYS, heal_partition, status
from oxbus import ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError, PartitionUnavailableError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.testing import ManualClock

SOON = 0.2
"""A short timeout, in seconds."""

MESSAGES = 16


def send_one(bus: Bus, text: str, _clock: ManualClock) -> None:
    """Send a message without a key."""
    bus.send(text)


def send_two(bus: Bus, text: str, _clock: ManualClock) -> None:
    """Send a list of two messages."""
    with bus.sender() as sender:
        sender.send_messages([ServiceBusMessage(text), ServiceBusMessage(text)])


def schedule(bus: Bus, text: str, clock: ManualClock) -> None:
    """Schedule a message."""
    with bus.sender() as sender:
        sender.schedule_messages(ServiceBusMessage(text), clock.now() + timedelta(days=1))


def publish(bus: Bus, text: str, _clock: ManualClock) -> None:
    """Send a message to a topic with two subscriptions."""
    with bus.client.get_topic_sender("news") as sender:
        sender.send_messages(ServiceBusMessage(text))


def all_texts(bus: Bus) -> Counter[str]:
    """The number of stored messages with each text, in all entities."""
    found = Counter(bodies(bus.peek()))
    for subscription in ("all", "some"):
        with bus.client.get_subscription_receiver("news", subscription) as browser:
            while batch := browser.peek_messages(100):
                found.update(bodies(batch))
    return found


@pytest.fixture
def stalling_bus(wide_bus: Bus) -> Bus:
    """The bus with a topic; the bad partition has been written to, so that its next write and sync go to a file."""
    wide_bus.admin.create_topic("news", enable_partitioning=True)
    for subscription in ("all", "some"):
        wide_bus.admin.create_subscription("news", subscription)
    wide_bus.send("before", partition_key=KEYS[BAD])
    return wide_bus


@pytest.mark.parametrize(
    ("send", "copies", "way"),
    [
        *((send_one, 1, way) for way in ("crash at once", "crash after the stall", "crash after healing", "close")),
        (send_two, 2, "crash at once"),
        (schedule, 1, "crash at once"),
        (publish, 2, "crash at once"),
    ],
)
def test_late_write_never_counts(
    stalling_bus: Bus, clock: ManualClock, send: Callable[[Bus, str, ManualClock], None], copies: int, way: str
) -> None:
    """The write succeeded and its sync hung: the message is elsewhere, exactly once, after every end (B-091, R-04)."""
    bus = stalling_bus
    # The first write succeeds.
    inject_fault(bus.namespace, BAD, "stall", after=1)
    for number in range(MESSAGES):
        send(bus, f"{number}", clock)
    expected = Counter({f"{number}": copies for number in range(MESSAGES)})
    assert all_texts(bus) == expected
    if way == "crash after the stall":
        # The late write may have arrived, and the partition may be healed or not yet.
        heal(bus.namespace, BAD)
    elif way != "crash at once":
        heal_partition(bus)
        assert all_texts(bus) == expected + Counter(["before"])
    shown = {message.sequence_number for message in bus.peek()}
    bus.reopen("close" if way == "close" else "crash")
    assert all_texts(bus) == expected + Counter(["before"])
    bus.send("after", partition_key=KEYS[BAD])
    (after,) = (message for message in bus.peek() if str(message) == "after")
    assert after.sequence_number not in shown
    for again in ("close", "crash"):
        bus.reopen(again)
        assert all_texts(bus) == expected + Counter(["before", "after"])


@pytest.mark.parametrize("ends", ["heals", "crashes"])
def test_repeated_send_under_duplicate_detection(wide_bus: Bus, ends: str) -> None:
    """A send that timed out is repeated with its message id; the message is stored once, also after an open (R-11)."""
    bus = wide_bus
    bus.admin.create_queue("ids", enable_partitioning=True, requires_duplicate_detection=True)
    bus.send("before", queue_name="ids", partition_key=KEYS[BAD])
    inject_fault(bus.namespace, BAD, "stall", after=1)
    message = ServiceBusMessage("once", message_id="m", partition_key=KEYS[BAD])
    with bus.sender("ids") as sender, pytest.raises(OperationTimeoutError):
        sender.send_messages(message, timeout=SOON)
    if ends == "heals":
        heal_partition(bus)
    else:
        bus.reopen("crash")
    with bus.sender("ids") as sender:
        sender.send_messages(message)
    for way in ("crash", "close"):
        bus.reopen(way)
        assert Counter(bodies(bus.peek("ids"))) == Counter(["before", "once"])


def test_failed_transaction_has_no_effect(wide_bus: Bus) -> None:
    """A commit that timed out is atomic, also for the next open (R-12)."""
    bus = wide_bus
    bus.send("taken", partition_key=KEYS[BAD])
    taken = bus.take_one()
    inject_fault(bus.namespace, BAD, "stall")

    def move() -> None:
        with bus.client.transaction() as transaction, bus.sender() as sender:
            message = ServiceBusMessage("made", partition_key=KEYS[BAD])
            sender.send_messages(message, transaction=transaction)
            bus.receiver().complete_message(taken, transaction=transaction)

    # A send without a key times out on the disk, and so does the commit.
    with pytest.raises(OperationTimeoutError), bus.sender() as sender:
        sender.send_messages(ServiceBusMessage("left", partition_key=KEYS[BAD]), timeout=SOON)
    with pytest.raises(Exception, match="does not answer"):
        move()
    assert bodies(bus.peek()) == []
    heal_partition(bus)
    assert bodies(bus.peek()) == ["taken"]
    move()
    bus.reopen("crash")
    assert bodies(bus.peek()) == ["made"]


def test_other_partitions_keep_syncing(stalling_bus: Bus) -> None:
    """While one disk hangs, the others acknowledge, and the namespace checkpoints and closes (B-099, R-24)."""
    bus = stalling_bus
    inject_fault(bus.namespace, BAD, "stall")
    with pytest.raises(OperationTimeoutError):
        bus.sender().send_messages(ServiceBusMessage("left", partition_key=KEYS[BAD]), timeout=SOON)
    for partition_id in GOOD:
        bus.send(f"{partition_id}", partition_key=KEYS[partition_id])
    bus.namespace.checkpoint()
    assert status(bus) == "faulted"
    bus.reopen("close")
    assert status(bus) == "healthy"
    assert Counter(bodies(bus.peek())) == Counter(["before", *map(str, GOOD)])


def test_first_call_detects_a_hung_disk(stalling_bus: Bus, in_background: Callable[..., Any]) -> None:
    """The hang is not known yet: one call is inside the disk; the other one times out and detects it (R-24)."""
    bus = stalling_bus
    inject_fault(bus.namespace, BAD, "latency:600")
    with bus.sender() as sender:
        one, other = (
            in_background(sender.send_messages, ServiceBusMessage(body, partition_key=KEYS[BAD]), timeout=3)
            for body in ("one", "other")
        )
        # Either may be the first at the disk.
        while one.running and other.running:
            time.sleep(0.01)
        caught, later = (one, other) if one.running else (other, one)
        with pytest.raises(OperationTimeoutError):
            later.result()
        assert status(bus) == "faulted"
        with pytest.raises(PartitionUnavailableError):
            sender.send_messages(ServiceBusMessage("refused", partition_key=KEYS[BAD]))
        sender.send_messages(ServiceBusMessage("elsewhere"))
        assert caught.running
        heal_partition(bus)
        with contextlib.suppress(OperationTimeoutError):
            caught.result()
    found = Counter(bodies(bus.peek()))
    assert found - Counter(["one", "other"]) == Counter(["before", "elsewhere"])
    assert max(found.values()) == 1
    bus.reopen("close")
    assert Counter(bodies(bus.peek())) == found


def test_sender_does_not_wait_for_the_activation_of_due_messages(
    stalling_bus: Bus, clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """If activating due messages hangs, a send behind it can time out or use another partition (B-235, R-24)."""
    bus = stalling_bus
    with bus.sender() as sender:
        due = ServiceBusMessage("due", partition_key=KEYS[BAD])
        sender.schedule_messages(due, clock.now() + timedelta(minutes=1))
        clock.advance(61)
        inject_fault(bus.namespace, BAD, "stall")
        looking = in_background(bus.runtime)
        left = ServiceBusMessage("left", partition_key=KEYS[BAD])
        for _ in range(2):
            with pytest.raises((OperationTimeoutError, PartitionUnavailableError)):
                sender.send_messages(left, timeout=SOON)
        for number in range(MESSAGES):
            bus.send(f"{number}")
        heal_partition(bus)
        looking.result()
        bus.send("after", partition_key=KEYS[BAD])
    numbers = {str(message): message.sequence_number for message in bus.peek() if message.partition_id == BAD}
    assert sorted(numbers, key=lambda text: numbers[text]) == ["before", "due", "after"]
    assert Counter(bodies(bus.peek())) == Counter(["before", "due", "after", *map(str, range(MESSAGES))])
