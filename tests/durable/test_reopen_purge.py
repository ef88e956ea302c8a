# SPDX-License-Identifier: Apache-2.0
"""Purges and resubmissions, and a failure between two partitions, after a reopen (B-270, B-401, B-405)."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, Bus, bodies
from oxbus.exceptions import ServiceBusError
from oxbus.management import SqlRuleFilter
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = 10
"""Messages in each partition."""


@pytest.fixture
def filled(bus: Bus, key_of: Callable[..., str]) -> Bus:
    """The bus with a partitioned queue `q` that has messages "0" to "39", ten in each of four partitions."""
    bus.admin.create_queue("q", enable_partitioning=True)
    for partition_id in range(4):
        for number in range(MESSAGES):
            bus.send(
                str(partition_id * MESSAGES + number),
                partition_key=key_of(partition_id),
                application_properties={"n": number},
            )
    return bus


@pytest.fixture
def dead_lettered(filled: Bus) -> Bus:
    """The same bus with all messages in the dead-letter queue."""
    receiver = filled.receiver()
    receiver.dead_letter_messages(filled.take(), reason="bad")
    return filled


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sub_queue", [None, "deadletter"])
def test_purged_messages_do_not_return(dead_lettered: Bus, way: str, sub_queue: str | None) -> None:
    """Removed messages do not return, and the others are unchanged (B-401)."""
    if sub_queue is None:
        dead_lettered.admin.resubmit_dead_letters("q")
    assert dead_lettered.admin.purge_messages("q", sub_queue=sub_queue, where=SqlRuleFilter("n < 7"), limit=25) == 25
    before = dead_lettered.observed_state()
    dead_lettered.reopen(way)
    assert dead_lettered.observed_state() == before
    assert len(dead_lettered.peek(sub_queue=sub_queue)) == 15


@pytest.mark.parametrize("way", WAYS)
def test_resubmitted_messages_are_stored_once(dead_lettered: Bus, way: str) -> None:
    """Each message is in the queue or in the dead-letter queue, never in both (B-270)."""
    assert dead_lettered.admin.resubmit_dead_letters("q", where=SqlRuleFilter("n >= 3"), limit=20) == 20
    before = dead_lettered.observed_state()
    dead_lettered.reopen(way)
    assert dead_lettered.observed_state() == before
    assert sorted(bodies(dead_lettered.peek() + dead_lettered.peek(sub_queue="deadletter")), key=int) == [
        str(it) for it in range(40)
    ]
    assert {message.dead_letter_reason for message in dead_lettered.peek()} == {None}


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync", "enospc"])
@pytest.mark.parametrize("way", WAYS)
def test_failure_between_partitions(dead_lettered: Bus, way: str, fault: str) -> None:
    """A disk that fails in the third partition affects no other partition (B-270, B-330)."""
    inject_fault(dead_lettered.namespace, 2, fault)
    moved = None
    with contextlib.suppress(ServiceBusError):
        moved = dead_lettered.admin.resubmit_dead_letters("q")
    assert moved is None or moved == 30
    heal(dead_lettered.namespace, 2)
    dead_lettered.reopen(way)
    all_of_them = bodies(dead_lettered.peek() + dead_lettered.peek(sub_queue="deadletter"))
    assert Counter(all_of_them) == Counter(str(number) for number in range(40))
    for partition_id in range(4):
        of_partition = {str(partition_id * MESSAGES + number) for number in range(MESSAGES)}
        here = len(of_partition.intersection(bodies(dead_lettered.peek())))
        assert here in (0, MESSAGES)
    dead_lettered.admin.resubmit_dead_letters("q")
    assert Counter(bodies(dead_lettered.peek())) == Counter(str(number) for number in range(40))
    assert dead_lettered.peek(sub_queue="deadletter") == []


def test_failed_purge_can_be_made_again(filled: Bus) -> None:
    """After a failure each message exists at most once, and a second call removes the rest (B-402, B-406)."""
    inject_fault(filled.namespace, 1, "eio-fsync")
    try:
        removed = filled.admin.purge_messages("q")
    except ServiceBusError:
        removed = None
    assert removed in (None, 30)
    heal(filled.namespace, 1)
    filled.reopen("crash")
    left = Counter(bodies(filled.peek()))
    assert set(left.values()) <= {1}
    assert filled.admin.purge_messages("q") == len(left)
    filled.reopen()
    assert filled.peek() == []
