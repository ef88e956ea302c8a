# SPDX-License-Identifier: Apache-2.0
"""Settling Arrow rows by their lock tokens (`settle_arrow`, an extension; B-150, B-162)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

Outcome = Literal["complete", "abandon", "defer", "dead_letter"]
OUTCOMES: tuple[Outcome, ...] = ("complete", "abandon", "defer", "dead_letter")


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("form", ["as received", "table", "keys only", "slice"])
def test_settling_rows(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    outcome: Outcome,
    form: str,
    bodies: Callable[[int], Any],
) -> None:
    """`settle_arrow` settles the given rows, in any form that has their lock tokens (B-162)."""
    total = 40
    sender.send_arrow(bodies(total))
    settled = 0
    for _ in range(100):
        received = receiver.receive_arrow(max_message_count=total, max_wait_time=0)
        if form == "as received":
            receiver.settle_arrow(received, outcome)
            if outcome == "abandon":
                break
            settled = total - admin.get_queue_runtime_properties(queue_name).active_message_count
            if settled >= total or outcome == "defer":
                break
            continue
        table = pa.table(received)
        if form == "slice":
            half = table.num_rows // 2
            receiver.settle_arrow(table.slice(0, half), outcome)
            table = table.slice(half)
        receiver.settle_arrow(
            table.select(["sequence_number", "lock_token"]) if form == "keys only" else table, outcome
        )
        settled += table.num_rows
        if outcome == "abandon" or not table.num_rows:
            break
    counts = admin.get_queue_runtime_properties(queue_name)
    assert counts.locked_message_count == 0
    if outcome == "complete":
        assert counts.total_message_count == 0
    else:
        assert counts.total_message_count == total
    if outcome == "dead_letter":
        assert counts.dead_letter_message_count == total
    if outcome == "defer":
        assert counts.deferred_message_count


def test_settling_stale_rows_names_them_and_settles_the_others(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, take: Callable[..., Any]
) -> None:
    """The error names rows with lost locks by their numbers; the others are settled (B-155, B-160)."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(6)])
    early = pa.table(receiver.receive_arrow(max_message_count=2, max_wait_time=0))
    clock.advance(30)
    late = take(receiver)
    clock.advance(31)
    with pytest.raises(MessageLockLostError) as lost:
        receiver.settle_arrow(pa.concat_tables([early, late]), "complete")
    assert sorted(lost.value.sequence_numbers) == early.column("sequence_number").to_pylist()
    with pytest.raises(MessageLockLostError):
        receiver.settle_arrow(late, "complete")
    assert take(receiver).column("sequence_number").to_pylist() == early.column("sequence_number").to_pylist()


def test_abandoned_rows_show_the_delivery_count(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any], bodies: Callable[[int], Any]
) -> None:
    """Rows carry the delivery count (B-163, B-176)."""
    sender.send_arrow(bodies(5))
    for count in range(3):
        table = take(receiver)
        assert table.column("delivery_count").to_pylist() == [count] * 5
        receiver.settle_arrow(table, "abandon")


@pytest.mark.parametrize("outcome", ["", "completed", "Complete", "delete", None], ids=repr)
def test_unknown_outcome_is_refused(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    take: Callable[..., Any],
    outcome: Any,
    bodies: Callable[[int], Any],
) -> None:
    """An outcome that does not exist is refused and settles nothing (B-162)."""
    sender.send_arrow(bodies(2))
    table = take(receiver)
    with pytest.raises((TypeError, ValueError)):
        receiver.settle_arrow(table, outcome)
    receiver.settle_arrow(table, "complete")


def test_settling_needs_tokens(receiver: ServiceBusReceiver, bodies: Callable[[int], Any]) -> None:
    """A batch without lock tokens is a ValueError that names the column (B-150)."""
    with pytest.raises(ValueError, match="lock_token"):
        receiver.settle_arrow(bodies(2), "complete")


def test_receive_and_delete_rows_have_no_lock(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    take: Callable[..., Any],
    bodies: Callable[[int], Any],
) -> None:
    """In receive-and-delete mode tokens and lock ends are null and the messages are removed (B-146, B-147)."""
    sender.send_arrow(bodies(30))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue_name, receive_mode=mode) as taker:
        table = take(taker)
        assert table.num_rows == 30
        assert table.column("lock_token").null_count == 30
        assert table.column("locked_until_utc").null_count == 30
        with pytest.raises(ValueError, match="lock"):
            taker.settle_arrow(table, "complete")
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_dead_letter_columns(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    client: ServiceBusClient,
    queue_name: str,
    take: Callable[..., Any],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    bodies: Callable[[int], Any],
) -> None:
    """Reason and description of dead letters are columns (B-263)."""
    sender.send_arrow(bodies(2))
    receiver.dead_letter_messages(drain(receiver), reason="r", error_description="d")
    with client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead_letters:
        table = take(dead_letters)
        assert table.column("dead_letter_reason").to_pylist() == ["r", "r"]
        assert table.column("dead_letter_error_description").to_pylist() == ["d", "d"]
        dead_letters.settle_arrow(table, "complete")
