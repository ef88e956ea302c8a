# SPDX-License-Identifier: Apache-2.0
"""After a failed write or sync, acknowledged messages stay, others do not appear, and no retry counts."""

from __future__ import annotations

import threading

import pytest
from durable_bus import Bus, bodies
from faulty_bus import ALL, BAD, KEYS, LIVENESS_SECONDS, UNACKNOWLEDGED, fail_partition, heal_partition, in_bad
from oxbus import ServiceBusMessage
from oxbus.exceptions import MessageLockLostError, PartitionUnavailableError
from oxbus.testing import inject_fault

pytestmark = pytest.mark.parametrize("fault", ["eio-write", "eio-fsync"])

ENDINGS = ("heal", "heal and close", "heal and crash", "close")


def end_fault(wide_bus: Bus, ending: str) -> None:
    """End the fault in the given way."""
    if ending.startswith("heal"):
        heal_partition(wide_bus)
    if ending.endswith(("close", "crash")):
        wide_bus.reopen(ending.rsplit(maxsplit=1)[-1])


@pytest.mark.parametrize("ending", ENDINGS)
def test_acknowledged_stays_and_the_rest_does_not_appear(wide_bus: Bus, fault: str, ending: str) -> None:
    """After a failed write or sync exactly the acknowledged messages exist, in order (B-074, B-174)."""
    wide_bus.send(*"abc", partition_key=KEYS[BAD])
    fail_partition(wide_bus, fault)
    for _ in range(3):
        with pytest.raises(PartitionUnavailableError):
            wide_bus.send(UNACKNOWLEDGED, partition_key=KEYS[BAD])
    end_fault(wide_bus, ending)
    assert bodies(wide_bus.peek()) == list("abc")
    wide_bus.send("d", partition_key=KEYS[BAD])
    wide_bus.reopen("crash")
    messages = wide_bus.take()
    assert bodies(messages) == list("abcd")
    numbers = [message.sequence_number for message in messages]
    assert numbers == sorted(set(numbers))


def test_crash_before_healing_loses_nothing(wide_bus: Bus, fault: str) -> None:
    """If the process dies during the fault, acknowledged messages exist once and others at most once."""
    wide_bus.send(*"abc", partition_key=KEYS[BAD])
    fail_partition(wide_bus, fault)
    wide_bus.reopen("crash")
    found = bodies(wide_bus.peek())
    assert found in (list("abc"), [*"abc", UNACKNOWLEDGED])
    wide_bus.reopen("crash")
    assert bodies(wide_bus.take()) == found


@pytest.mark.parametrize("ending", ENDINGS)
def test_batch_that_failed_does_not_appear_in_part(wide_bus: Bus, fault: str, ending: str) -> None:
    """No message of a batch that was not acknowledged is stored (B-079)."""
    inject_fault(wide_bus.namespace, BAD, fault)
    with wide_bus.sender() as sender, pytest.raises(PartitionUnavailableError):
        sender.send_messages([ServiceBusMessage(str(number), partition_key=KEYS[BAD]) for number in range(50)])
    end_fault(wide_bus, ending)
    assert wide_bus.peek() == []
    assert wide_bus.runtime().total_message_count == 0


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("after", [0, 7, 40])
def test_many_senders_at_once(wide_bus: Bus, fault: str, ending: str, after: int) -> None:
    """Each of eight threads that send together finds exactly its acknowledged messages, in order (B-076)."""
    acknowledged: dict[int, list[str]] = {thread: [] for thread in range(8)}
    unexpected: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            with wide_bus.sender() as sender:
                for number in range(5000):
                    sender.send_messages(ServiceBusMessage(f"{thread}.{number}", partition_key=KEYS[BAD]))
                    acknowledged[thread].append(f"{thread}.{number}")
        except PartitionUnavailableError:
            return
        except BaseException as error:  # noqa: BLE001 - shown by the test
            unexpected.append(error)

    wide_bus.send("before", partition_key=KEYS[BAD])
    inject_fault(wide_bus.namespace, BAD, fault, after=after)
    threads = [threading.Thread(target=work, args=(thread,), daemon=True) for thread in acknowledged]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LIVENESS_SECONDS)
        assert not each.is_alive()
    assert unexpected == []
    end_fault(wide_bus, ending)
    found = bodies(wide_bus.take())
    assert found[0] == "before"
    assert sorted(found[1:]) == sorted(body for own in acknowledged.values() for body in own)
    for thread, own in acknowledged.items():
        assert [body for body in found if body.startswith(f"{thread}.")] == own


@pytest.mark.parametrize("ending", ENDINGS)
def test_failed_complete_is_decided_once(wide_bus: Bus, fault: str, ending: str) -> None:
    """A complete that failed either happened or did not: the message is gone for good, or returns unchanged (B-162)."""
    wide_bus.send("unknown", "untouched", partition_key=KEYS[BAD])
    messages = wide_bus.take()
    receiver = wide_bus.receiver()
    inject_fault(wide_bus.namespace, BAD, fault)
    with pytest.raises(PartitionUnavailableError):
        receiver.complete_message(messages[0])
    end_fault(wide_bus, ending)
    found = bodies(wide_bus.peek())
    assert found in (["untouched"], ["unknown", "untouched"])
    for way in ("crash", "close"):
        wide_bus.reopen(way)
        assert bodies(wide_bus.peek()) == found
    again = wide_bus.take()
    assert bodies(again) == found
    assert [message.delivery_count for message in again] == [1] * len(found)


def test_acknowledged_settlements_outlive_the_healing(wide_bus: Bus, fault: str) -> None:
    """Messages completed, deferred or dead-lettered before the fault stay so after it (B-162, B-164, B-165)."""
    wide_bus.send("completed", "deferred", "dead", "held", partition_key=KEYS[BAD])
    completed, deferred, dead, held = wide_bus.take()
    receiver = wide_bus.receiver()
    receiver.complete_message(completed)
    receiver.defer_message(deferred)
    receiver.dead_letter_message(dead, "why")
    fail_partition(wide_bus, fault)
    heal_partition(wide_bus)
    assert bodies(wide_bus.peek()) == ["deferred", "held"]
    (dead_letter,) = wide_bus.peek(sub_queue="deadletter")
    assert (str(dead_letter), dead_letter.dead_letter_reason) == ("dead", "why")
    (fetched,) = receiver.receive_deferred_messages(deferred.sequence_number)
    receiver.complete_message(fetched)
    try:
        receiver.complete_message(held)
    except MessageLockLostError:
        receiver.complete_message(wide_bus.take_one())
    wide_bus.reopen("crash")
    assert wide_bus.peek() == []
    assert bodies(wide_bus.peek(sub_queue="deadletter")) == ["dead"]


def test_receive_that_cannot_be_recorded_delivers_nothing(wide_bus: Bus, fault: str) -> None:
    """A receive skips a partition that fails during it; its messages are delivered once it is healed (B-093)."""
    for partition_id in ALL:
        wide_bus.send("x", partition_key=KEYS[partition_id])
    inject_fault(wide_bus.namespace, BAD, fault)
    first = wide_bus.take()
    assert {message.partition_id for message in first} >= set(ALL) - {BAD}
    with pytest.raises(PartitionUnavailableError):
        wide_bus.send(UNACKNOWLEDGED, partition_key=KEYS[BAD])
    assert wide_bus.take() == []
    heal_partition(wide_bus)
    wide_bus.reopen("crash")
    second = wide_bus.take()
    assert len(in_bad(second)) == 1
    assert len(second) == len(ALL)


def test_keyless_message_is_stored_once(wide_bus: Bus, fault: str) -> None:
    """A keyless send that meets the failing partition is stored in exactly one other partition (B-073)."""
    inject_fault(wide_bus.namespace, BAD, fault)
    sent = [str(number) for number in range(48)]
    wide_bus.send(*sent)
    assert in_bad(wide_bus.peek()) == []
    heal_partition(wide_bus)
    assert sorted(bodies(wide_bus.peek())) == sorted(sent)
    wide_bus.reopen("crash")
    assert sorted(bodies(wide_bus.take())) == sorted(sent)


def test_partition_may_fail_again(wide_bus: Bus, fault: str) -> None:
    """Healing works each time the fault returns, and never loses an acknowledged message (B-093)."""
    expected: list[str] = []
    for step in range(4):
        wide_bus.send(f"{step}", partition_key=KEYS[BAD])
        expected.append(f"{step}")
        fail_partition(wide_bus, fault)
        heal_partition(wide_bus)
        assert bodies(wide_bus.peek()) == expected
    wide_bus.reopen("crash")
    assert bodies(wide_bus.take()) == expected
