# SPDX-License-Identifier: Apache-2.0
"""A failed call reports in `effect` what it did, and in `sequence_numbers` to which messages.

Once a receive that deletes lost a message without an error: the write of the removal failed, the list was empty, and
the message was gone after the next open. `rust/oxbus-sim/tests/hand_outs.rs` tries a failure of each disk call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from faulty_bus import ALL, BAD, GOOD, KEYS, UNACKNOWLEDGED, fail_partition, heal_partition, in_bad, status
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import MessageAlreadySettled, MessageLockLostError, PartitionUnavailableError, ServiceBusError
from oxbus.testing import inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.testing import ManualClock

FAULTS = pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])


def deleting(bus: Bus, **options: Any) -> ServiceBusReceiver:
    """Make a receiver that deletes what it receives."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    return bus.client.get_queue_receiver("q", receive_mode=mode, max_wait_time=0, **options)


def refusal_of(call: Callable[[], object]) -> PartitionUnavailableError:
    """Make a call that is rejected; return its error."""
    with pytest.raises(PartitionUnavailableError) as refusal:
        call()
    return refusal.value


def numbers_of(messages: list[ServiceBusReceivedMessage]) -> list[int | None]:
    """The sequence numbers of messages."""
    return [message.sequence_number for message in messages]


@FAULTS
@pytest.mark.parametrize("ending", ["heal", "crash", "close"])
def test_removal_that_fails_is_an_error_and_the_message_stays(wide_bus: Bus, fault: str, ending: str) -> None:
    """A receive that deletes raises with the numbers, and the messages it did not deliver are back (R-01, R-25)."""
    wide_bus.send("only", partition_key=KEYS[BAD])
    (number,) = numbers_of(wide_bus.peek())
    with deleting(wide_bus) as receiver:
        inject_fault(wide_bus.namespace, BAD, fault)
        error = refusal_of(lambda: receiver.receive_messages(max_wait_time=0))
        assert error.effect == "unknown"
        assert error.sequence_numbers == [number]
        assert str(number) in str(error)
    if ending == "heal":
        heal_partition(wide_bus)
    else:
        wide_bus.reopen(ending)
    found = wide_bus.take()
    if ending == "crash":
        # The process ended before the partition was healed: as the error stated, the message may be lost.
        assert bodies(found) in (["only"], [])
    else:
        assert [(str(message), message.delivery_count) for message in found] == [("only", 0)]


@FAULTS
def test_next_receive_reports_a_removal_that_failed_beside_others(wide_bus: Bus, fault: str) -> None:
    """The messages of other partitions are delivered, and the next call reports which may be gone (R-24, R-25)."""
    for partition_id in ALL:
        wide_bus.send(f"{partition_id}", partition_key=KEYS[partition_id])
    bad = numbers_of(in_bad(wide_bus.peek()))
    with deleting(wide_bus) as receiver:
        inject_fault(wide_bus.namespace, BAD, fault)
        taken = receiver.receive_messages(100, max_wait_time=0)
        assert sorted(message.partition_id or 0 for message in taken) == GOOD
        error = refusal_of(lambda: receiver.receive_messages(100, max_wait_time=0))
        assert (error.effect, error.sequence_numbers) == ("unknown", bad)
        assert receiver.receive_messages(100, max_wait_time=0) == []
        heal_partition(wide_bus)
        assert bodies(receiver.receive_messages(100, max_wait_time=0)) == [str(BAD)]
    wide_bus.reopen("crash")
    assert wide_bus.take() == []


@FAULTS
def test_healing_decides_the_outcome_of_a_receive(wide_bus: Bus, fault: str) -> None:
    """Once the partition is healed there is nothing to report: the next receive delivers the message (R-25)."""
    for partition_id in ALL:
        wide_bus.send(f"{partition_id}", partition_key=KEYS[partition_id])
    with deleting(wide_bus) as receiver:
        inject_fault(wide_bus.namespace, BAD, fault)
        assert len(receiver.receive_messages(100, max_wait_time=0)) == len(GOOD)
        heal_partition(wide_bus)
        assert bodies(receiver.receive_messages(100, max_wait_time=0)) == [str(BAD)]


@pytest.mark.parametrize(
    ("fault", "mode"),
    [
        ("eio-write", ServiceBusReceiveMode.PEEK_LOCK),
        ("eio-write", ServiceBusReceiveMode.RECEIVE_AND_DELETE),
        # A delivery under a lock is written but not synced, so a failed sync does not affect it.
        ("eio-fsync", ServiceBusReceiveMode.RECEIVE_AND_DELETE),
    ],
)
def test_fetch_by_number_that_fails_counts_no_delivery(wide_bus: Bus, fault: str, mode: ServiceBusReceiveMode) -> None:
    """A fetch whose delivery could not be written raises, and the delivery does not count (B-281, R-13)."""
    wide_bus.send("deferred", partition_key=KEYS[BAD])
    message = wide_bus.take_one()
    wide_bus.receiver().defer_message(message)
    number = message.sequence_number
    assert number is not None
    with wide_bus.client.get_queue_receiver("q", receive_mode=mode) as receiver:
        inject_fault(wide_bus.namespace, BAD, fault)
        error = refusal_of(lambda: receiver.receive_deferred_messages(number))
        assert (error.effect, error.sequence_numbers) == ("unknown", [number])
        assert refusal_of(lambda: receiver.receive_deferred_messages(number)).effect is None
        heal_partition(wide_bus)
        (fetched,) = receiver.receive_deferred_messages(number)
        assert fetched.delivery_count == (1 if mode == ServiceBusReceiveMode.PEEK_LOCK else 0)


def test_fetch_by_number_names_the_messages_it_could_not_fetch(wide_bus: Bus) -> None:
    """The error of a fetch whose delivery may be written has the effect unknown and the numbers (B-278, B-281)."""
    wide_bus.send("a", "b", partition_key=KEYS[BAD])
    deferred = wide_bus.take()
    wide_bus.receiver().defer_messages(deferred)
    numbers = [message.sequence_number or 0 for message in deferred]
    inject_fault(wide_bus.namespace, BAD, "eio-write")
    error = refusal_of(lambda: wide_bus.receiver().receive_deferred_messages(numbers))
    assert (error.effect, error.sequence_numbers) == ("unknown", numbers)
    heal_partition(wide_bus)
    again = wide_bus.receiver().receive_deferred_messages(numbers)
    assert [message.delivery_count for message in again] == [1, 1]


@FAULTS
@pytest.mark.parametrize("verb", ["complete", "defer", "dead_letter"])
def test_list_is_settled_except_in_the_failing_partition(wide_bus: Bus, fault: str, verb: str) -> None:
    """All are started and all are waited for; the error names exactly those whose outcome is unknown (B-095)."""
    for partition_id in ALL:
        wide_bus.send(f"{partition_id}", partition_key=KEYS[partition_id])
    messages = wide_bus.take()
    receiver = wide_bus.receiver()
    inject_fault(wide_bus.namespace, BAD, fault)
    error = refusal_of(lambda: getattr(receiver, f"{verb}_messages")(messages))
    assert error.effect == "unknown"
    assert error.sequence_numbers == numbers_of(in_bad(messages))
    good = [message for message in messages if message.partition_id != BAD]
    for message in good:
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)
    assert all(message.partition_id == BAD for message in wide_bus.take())
    heal_partition(wide_bus)
    wide_bus.reopen("crash")
    left = {message.partition_id for message in wide_bus.take()}
    assert left <= {BAD}
    runtime = wide_bus.runtime()
    if verb == "defer":
        assert (runtime.deferred_message_count or 0) >= len(GOOD)
    if verb == "dead_letter":
        assert runtime.dead_letter_message_count >= len(GOOD)


def test_arrow_table_is_settled_except_in_the_failing_partition(wide_bus: Bus) -> None:
    """A failed `settle_arrow` raises an error that also names the lost locks (B-095, B-155)."""
    pytest.importorskip("pyarrow")
    for partition_id in ALL:
        wide_bus.send(f"{partition_id}", partition_key=KEYS[partition_id])
    bad = numbers_of(in_bad(wide_bus.peek()))
    receiver = wide_bus.receiver()
    table = receiver.receive_arrow(100, max_wait_time=0)
    fail_partition(wide_bus, "eio-write")
    error = refusal_of(lambda: receiver.settle_arrow(table, "complete"))
    assert (error.effect, error.sequence_numbers) == ("partial", bad)
    heal_partition(wide_bus)
    assert [message.partition_id for message in wide_bus.peek()] == [BAD]


@FAULTS
def test_send_and_settlement_report_their_effect(wide_bus: Bus, fault: str) -> None:
    """Unknown for the call that met the failure, None for calls that were rejected before they began (R-05, R-25)."""
    wide_bus.send("held", partition_key=KEYS[BAD])
    held = wide_bus.take_one()
    receiver = wide_bus.receiver()
    with wide_bus.sender() as sender:
        message = ServiceBusMessage(UNACKNOWLEDGED, partition_key=KEYS[BAD])
        inject_fault(wide_bus.namespace, BAD, fault)
        assert refusal_of(lambda: sender.send_messages(message)).effect == "unknown"
        assert status(wide_bus) == "faulted"
        assert refusal_of(lambda: sender.send_messages(message)).effect is None
        assert refusal_of(lambda: receiver.complete_message(held)).effect is None
        heal_partition(wide_bus)
        inject_fault(wide_bus.namespace, BAD, fault)
        error = refusal_of(lambda: receiver.complete_message(held))
        assert (error.effect, error.sequence_numbers) == ("unknown", [held.sequence_number])


def test_lost_lock_settles_nothing(wide_bus: Bus, clock: ManualClock) -> None:
    """None for one message or a list without any lock, partial for a list with some locks (B-155, B-160)."""
    wide_bus.send("a", "b", partition_key=KEYS[BAD])
    lost = wide_bus.take()
    clock.advance(3600)
    wide_bus.send("c", partition_key=KEYS[GOOD[0]])
    receiver = wide_bus.receiver()
    (held,) = [message for message in wide_bus.take() if str(message) == "c"]

    def error_of(call: Callable[[], object]) -> ServiceBusError:
        with pytest.raises(MessageLockLostError) as error:
            call()
        return error.value

    single = error_of(lambda: receiver.complete_message(lost[0]))
    assert (single.effect, single.sequence_numbers) == ("none", [lost[0].sequence_number])
    assert error_of(lambda: receiver.complete_messages(lost)).effect == "none"
    some = error_of(lambda: receiver.complete_messages([*lost, held]))
    assert (some.effect, some.sequence_numbers) == ("partial", numbers_of(lost))


def test_error_that_began_nothing_has_no_effect(wide_bus: Bus) -> None:
    """A wrong call, a missing queue and a closed handle did nothing, and report no effect (B-437)."""
    with pytest.raises(ServiceBusError) as missing:
        wide_bus.client.get_queue_sender("none").send_messages(ServiceBusMessage("x"))
    assert missing.value.effect is None
    assert missing.value.sequence_numbers == []
    sender = wide_bus.sender()
    sender.close()
    with pytest.raises(ValueError, match="closed") as closed:
        sender.send_messages(ServiceBusMessage("x"))
    assert not hasattr(closed.value, "effect")
