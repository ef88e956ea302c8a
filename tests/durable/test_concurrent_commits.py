# SPDX-License-Identifier: Apache-2.0
"""While a commit waits for its disk, it has exclusive use of its messages and sessions (B-200, B-316, R-09)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import bodies
from faulty_bus import BAD, KEYS, LIVENESS_SECONDS, heal_partition
from oxbus import AutoLockRenewer, ServiceBusMessage
from oxbus.exceptions import MessageAlreadySettled, MessageLockLostError, SessionLockLostError
from oxbus.testing import inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_bus import Bus
    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession
    from oxbus.testing import ManualClock

KEY = KEYS[BAD]
VERBS = ("complete", "abandon", "defer", "dead_letter")
PAST_THE_LOCK = 61


def until(condition: Callable[[], bool]) -> None:
    """Wait for the result of another thread."""
    end = time.monotonic() + LIVENESS_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def can_renew(receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> bool:
    """Whether the receiver still holds the lock."""
    try:
        receiver.renew_message_lock(message)
    except MessageLockLostError:
        return False
    return True


def settled(call: Any) -> bool:
    """Whether a settlement in the background succeeded; False if its lock was lost."""
    try:
        call.result()
    except (MessageLockLostError, SessionLockLostError):
        return False
    return True


@pytest.mark.parametrize("way", ["close", "crash"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_message_is_settled_by_its_commit_or_by_another_call(
    wide_bus: Bus, in_background: Callable[..., Any], verb: str, way: str
) -> None:
    """If a commit and a concurrent call settle the same message, exactly one succeeds (B-316, B-317, R-09).

    The commit kept the lock alive without claiming it, so both succeeded while its disk was busy.
    """
    wide_bus.send("request", partition_key=KEY)
    request = wide_bus.take_one()
    txn = wide_bus.client.transaction()
    with wide_bus.sender() as sender:
        sender.send_messages(ServiceBusMessage("reply", partition_key=KEY), transaction=txn)
    wide_bus.receiver().complete_message(request, transaction=txn)
    inject_fault(wide_bus.namespace, BAD, "stall")
    commit = in_background(txn.commit)
    beside = in_background(getattr(wide_bus.receiver(), f"{verb}_message"), request)
    heal_partition(wide_bus)
    committed = settled(commit)
    assert settled(beside) != committed
    wide_bus.reopen(way)
    left = bodies(wide_bus.peek()) + bodies(wide_bus.peek(sub_queue="deadletter"))
    if committed:
        assert left == ["reply"]
    else:
        assert left == ([] if verb == "complete" else ["request"])


@pytest.mark.parametrize("end", ["close", "expire"])
@pytest.mark.parametrize("attempt", range(3))
def test_a_session_that_ends_during_a_commit_ends_after_it(
    wide_bus: Bus, clock: ManualClock, in_background: Callable[..., Any], end: str, attempt: int
) -> None:
    """A commit is atomic: the message it completed does not return, and the state it set exists (B-200, B-213).

    The session was released at once, with the message that the commit completed; its state was in the journal only.
    """
    wide_bus.admin.create_queue("s", enable_partitioning=True, requires_session=True)

    def accept() -> ServiceBusReceiver:
        return wide_bus.client.get_queue_receiver("s", session_id=KEY, max_wait_time=0)

    def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
        assert receiver.session is not None
        return receiver.session

    wide_bus.send("0", "1", "2", queue_name="s", session_id=KEY)
    holder = accept()
    (first,) = holder.receive_messages()
    txn = wide_bus.client.transaction()
    holder.complete_message(first, transaction=txn)
    session_of(holder).set_state(b"one done", transaction=txn)
    inject_fault(wide_bus.namespace, BAD, "stall")
    commit = in_background(txn.commit)
    if end == "close":
        ended = in_background(holder.close)
    else:
        clock.advance(PAST_THE_LOCK)
        ended = in_background(wide_bus.runtime, "s")
    heal_partition(wide_bus)
    committed = settled(commit)
    ended.result()
    counted = int(end == "expire")
    expected = [("1", 0), ("2", 0)] if committed else [("0", counted), ("1", 0), ("2", 0)]
    state = b"one done" if committed else None
    following = accept()
    assert session_of(following).get_state() == state
    messages = following.receive_messages(10)
    assert [(str(message), message.delivery_count) for message in messages] == expected
    following.close()
    wide_bus.reopen("crash" if attempt else "close")
    following = accept()
    assert session_of(following).get_state() == state
    assert bodies(following.receive_messages(10)) == [body for body, _ in expected]


def test_a_lock_that_a_commit_has_is_not_renewed(
    wide_bus: Bus, clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A renewer waits for the end of the commit instead of failing to renew (B-154, B-316)."""
    wide_bus.send("settled", "other", partition_key=KEY)
    failures: list[Any] = []
    with AutoLockRenewer(on_lock_renew_failure=lambda *failure: failures.append(failure)) as renewer:
        receiver = wide_bus.receiver()
        settled_message, other = wide_bus.take()
        txn = wide_bus.client.transaction()
        receiver.complete_message(settled_message, transaction=txn)
        inject_fault(wide_bus.namespace, BAD, "stall")
        commit = in_background(txn.commit)
        until(lambda: not can_renew(receiver, settled_message))
        for message in (settled_message, other):
            renewer.register(receiver, message)
        before = other.locked_until_utc
        clock.advance(55)
        # The renewal of one lock checked both.
        until(lambda: other.locked_until_utc != before)
        until(lambda: renewer._in_pool == 0)
        heal_partition(wide_bus)
        commit.result()
        assert failures == []
        assert settled_message.auto_renew_error is None


@pytest.mark.parametrize("verb", VERBS)
def test_a_rejected_list_adds_nothing_to_the_transaction(queue: Bus, verb: str) -> None:
    """One message without its lock keeps the whole list out of the transaction (B-316); the first ones stayed in."""
    queue.send("0", "1", "2", partition_key=KEY)
    messages = queue.take()
    settle = getattr(queue.receiver(), f"{verb}_messages")
    txn = queue.client.transaction()
    queue.receiver().complete_message(messages[2], transaction=txn)
    with pytest.raises(MessageAlreadySettled):
        settle(messages, transaction=txn)
    with pytest.raises(MessageAlreadySettled):
        settle([messages[0], messages[1], messages[0]], transaction=txn)
    txn.commit()
    assert bodies(queue.peek()) == ["0", "1"]
    queue.receiver().complete_messages(messages[:2])
    assert queue.peek() == []
