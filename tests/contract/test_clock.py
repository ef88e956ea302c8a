# SPDX-License-Identifier: Apache-2.0
"""`ManualClock` drives everything that depends on time (test kit; B-117, B-151, B-232, B-246, R-32)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender


def test_clock_stands_still() -> None:
    """The clock shows its start until it is moved (test kit)."""
    start = datetime(2024, 2, 29, 23, 59, 59, 500_000, tzinfo=UTC)
    clock = ManualClock(start)
    assert clock.now() == start
    assert clock.now().utcoffset() == timedelta(0)
    clock.advance(0.5)
    assert clock.now() == datetime(2024, 3, 1, tzinfo=UTC)


def test_clock_without_a_start() -> None:
    """Without a start the clock shows the system time in UTC and does not run (test kit).

    It used to show 2025-01-01, years away from times that a program computes from the system clock.
    """
    earlier = datetime.now(UTC) - timedelta(milliseconds=1)  # The clock has whole milliseconds.
    clock = ManualClock()
    before = clock.now()
    assert earlier <= before <= datetime.now(UTC)
    assert before.tzinfo is not None
    clock.advance(3600)
    assert clock.now() - before == timedelta(hours=1)


def test_start_of_another_offset() -> None:
    """The start may have any offset and reads in UTC (test kit)."""
    clock = ManualClock(datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now() == datetime(2024, 1, 1, tzinfo=UTC)
    assert clock.now().utcoffset() == timedelta(0)


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf")])
def test_clock_does_not_go_back(seconds: float) -> None:
    """Moving back, or by a value that is not a time, is a ValueError (R-32)."""
    clock = ManualClock()
    before = clock.now()
    with pytest.raises(ValueError, match="seconds"):
        clock.advance(seconds)
    assert clock.now() == before


def test_real_time_does_not_pass(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The broker's time is the clock's, however long a test takes (B-117, B-151)."""
    now = clock.now()
    sender.send_messages(ServiceBusMessage(b"x"))
    message = receive_one(receiver)
    assert (message.enqueued_time_utc, message.locked_until_utc) == (now, now + timedelta(minutes=1))


@pytest.mark.parametrize("event", ["lock", "schedule"])
@pytest.mark.parametrize("steps", [1, 10], ids=["one jump", "small steps"])
def test_waiting_receive_wakes_when_the_clock_moves(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    in_background: Callable[..., Any],
    receive_one: Callable[..., ServiceBusReceivedMessage],
    event: str,
    steps: int,
) -> None:
    """A waiting receive returns when the clock reaches a lock end or a scheduled time (B-157, B-233, R-21)."""
    if event == "lock":
        sender.send_messages(ServiceBusMessage(b"x"))
        receive_one(receiver)
    else:
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(seconds=60))
    waiting = in_background(receiver.receive_messages, max_wait_time=3600)
    for _ in range(steps):
        assert waiting.running
        clock.advance(60.5 / steps)
    (message,) = waiting.result()
    assert message.delivery_count == (1 if event == "lock" else 0)


def test_two_namespaces_may_share_a_clock(clock: ManualClock, open_namespace: Callable[..., Any]) -> None:
    """One clock can drive several namespaces (test kit)."""
    for _ in range(2):
        namespace = open_namespace(clock=clock)
        ServiceBusAdministrationClient(namespace).create_queue("q")
        with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
            sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(seconds=5))
            clock.advance(6)
            with client.get_queue_receiver("q") as receiver:
                assert len(receiver.receive_messages(max_wait_time=0)) == 1


def test_clock_outlives_its_namespace(clock: ManualClock, open_namespace: Callable[..., Any]) -> None:
    """Moving the clock after its namespace was closed is harmless (R-30)."""
    namespace = open_namespace(clock=clock)
    namespace.close()
    clock.advance(10)


@pytest.mark.parametrize("clock", [5, "now", ...], ids=repr)
def test_something_else_is_no_clock(open_namespace: Callable[..., Any], clock: Any) -> None:
    """A namespace takes a ManualClock or None as its clock (test kit)."""
    with pytest.raises(TypeError, match="clock"):
        open_namespace(clock=clock)
