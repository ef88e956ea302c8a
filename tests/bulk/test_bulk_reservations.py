# SPDX-License-Identifier: Apache-2.0
"""Reservations of a bulk client: every call, and the same errors as in the broker's own process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.exceptions import (
    CheckpointBehindError,
    InvalidOperationError,
    MessageLockLostError,
    MessagingEntityNotFoundError,
    ReservationFencedError,
)

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.bulk import BulkClient
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

MIB = 1 << 20


def reserve(bulk: BulkClient, queue_name: str, epoch: int, n: int, **options: Any) -> dict[str, Any]:
    """Reserve all available messages."""
    arguments: dict[str, Any] = {"max_messages": 1000, "max_bytes": MIB, "lock_duration": 60, **options}
    return bulk.reserve(queue_name, "reader", epoch, n, **arguments)


def read(bulk: BulkClient, queue_name: str, epoch: int, plan: dict[str, Any], **options: Any) -> Any:
    """Every message of a plan."""
    tables = []
    for part in plan["partitions"]:
        for first, last in part["ranges"]:
            number: int | None = first
            while number is not None:
                page, number = bulk.read(queue_name, plan["id"], epoch, part["partition"], number, last, **options)
                tables.append(pa.table(page))
    return pa.concat_tables(tables)


def test_batch_after_batch(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Acquire, reserve, plan again, read twice, renew, complete; completed messages are gone."""
    bulk.send(queue_name, rows(50))
    acquired = bulk.acquire(queue_name, "reader")
    assert acquired == {"epoch": 1, "done": 0}
    plan = reserve(bulk, queue_name, 1, 1, max_messages=30)
    assert plan["messages"] == 30
    again = bulk.plan(queue_name, "reader", 1, 1, lock_duration=60)
    assert (again["id"], again["partitions"]) == (plan["id"], plan["partitions"])
    first = read(bulk, queue_name, 1, plan)
    assert read(bulk, queue_name, 1, plan, max_bytes=1) == first
    assert first.num_rows == 30
    assert read(bulk, queue_name, 1, plan, include_body=False)["body"].null_count == 30
    bulk.renew(queue_name, "reader", 1, lock_duration=120)
    (info,) = bulk.reservations(queue_name)
    assert (info["consumer"], info["n"], info["messages"], info["state"]) == ("reader", 1, 30, "live")
    assert bulk.complete(queue_name, "reader", 1, 1) == {"completed": 30, "late": 0}
    assert bulk.complete(queue_name, "reader", 1, 1) == {"completed": 0, "late": 0}
    assert bulk.describe(queue_name)["active_messages"] == 20
    assert bulk.acquire(queue_name, "reader") == {"epoch": 2, "done": 1}


def test_single_messages_are_settled(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A poison message goes to the dead-letter queue, the others stay reserved."""
    bulk.send(queue_name, rows(5))
    bulk.acquire(queue_name, "reader")
    plan = reserve(bulk, queue_name, 1, 1)
    poison = plan["partitions"][0]["ranges"][0][0]
    options: dict[str, Any] = {"reason": "poison", "description": "cannot be read"}
    assert bulk.settle_reserved(queue_name, plan["id"], 1, [poison], "dead_letter", **options) == 1
    assert bulk.complete(queue_name, "reader", 1, 1)["completed"] == 4
    dead = pa.table(bulk.receive(f"{queue_name}/$deadletterqueue", max_message_count=5))
    assert dead["dead_letter_reason"].to_pylist() == ["poison"]


def test_reserve_waits(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A waiting reserve gets messages sent during the wait; one without messages returns an empty plan."""
    bulk.acquire(queue_name, "reader")
    assert reserve(bulk, queue_name, 1, 1)["messages"] == 0
    plans: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: plans.append(reserve(bulk, queue_name, 1, 1, max_wait_time=60)))
    waiting.start()
    bulk.send(queue_name, rows(1))
    waiting.join(60)
    assert [plan["messages"] for plan in plans] == [1]


def test_upto_bounds_a_reservation(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """The ends of one moment exclude later messages."""
    bulk.send(queue_name, rows(10))
    ends = bulk.describe(queue_name)["ends"]
    bulk.send(queue_name, rows(10))
    bulk.acquire(queue_name, "reader")
    assert reserve(bulk, queue_name, 1, 1, upto=ends)["messages"] == 10


def test_errors_are_those_of_the_broker(
    bulk: BulkClient,
    queue_name: str,
    rows: Callable[..., Any],
    clock: ManualClock,
    admin: ServiceBusAdministrationClient,
) -> None:
    """Fenced, behind, expired, not for sessions, not found."""
    bulk.send(queue_name, rows(5))
    with pytest.raises(ReservationFencedError):
        reserve(bulk, queue_name, 1, 1)
    bulk.acquire(queue_name, "reader", "earliest")
    plan = reserve(bulk, queue_name, 1, 1)
    bulk.acquire(queue_name, "reader")
    with pytest.raises(ReservationFencedError):
        reserve(bulk, queue_name, 1, 2)
    clock.advance(3600)
    with pytest.raises((MessageLockLostError, ReservationFencedError)):
        read(bulk, queue_name, 1, plan)
    assert reserve(bulk, queue_name, 2, 1)["messages"] == 5
    bulk.complete(queue_name, "reader", 2, 1)
    with pytest.raises(CheckpointBehindError):
        bulk.plan(queue_name, "reader", 2, 1, lock_duration=60)
    assert bulk.cancel_reservation(queue_name, "reader") == 0
    with pytest.raises(MessagingEntityNotFoundError):
        bulk.acquire("missing", "reader")
    with pytest.raises(ValueError, match="unknown start"):
        bulk.acquire(queue_name, "reader", "now")  # type: ignore[arg-type]
    admin.create_topic("news")
    with pytest.raises(InvalidOperationError):
        bulk.acquire("news", "reader")
