# SPDX-License-Identifier: Apache-2.0
"""Acknowledged messages exist after the namespace was closed, or its process died, and opened again.

An acknowledged message is neither lost nor changed nor duplicated, and a settled one does not return.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import PARTITIONS, WAYS, bodies, body_of, described
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import MessageNotFoundError

if TYPE_CHECKING:
    from durable_bus import Bus
    from oxbus.testing import ManualClock

TEXTS: dict[str, Any] = {
    "message_id": "id-1",
    "session_id": "schlüssel 鍵",
    "partition_key": "schlüssel 鍵",
    "subject": "a subject",
    "correlation_id": "c-1",
    "content_type": "application/json",
    "to": "somewhere",
    "reply_to": "here",
    "reply_to_session_id": "there",
}
PROPERTIES: dict[str, Any] = {
    "true": True,
    "false": False,
    "zero": 0,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "tiny": 5e-324,
    "infinite": float("inf"),
    "empty text": "",
    "unicode": "schlüssel 鍵 🔑",
    "bytes": b"\x00\xff",
    "none": None,
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "time": datetime(2013, 1, 1, 5, 15, 0, 250_000, tzinfo=UTC),
}
BODIES: list[Any] = [b"", None, "schlüssel 鍵", b"a\r\nb\nc\x00", bytes(range(256)) * 900]
KEYS = [f"key-{number}" for number in range(12)]


def fill(bus: Bus, clock: ManualClock) -> None:
    """Put messages in every state into the queue, one second apart."""
    with bus.sender() as sender:
        for body in BODIES:
            sender.send_messages(ServiceBusMessage(body, partition_key="k"))
            clock.advance(1)
        sender.send_messages([ServiceBusMessage(f"batch-{number}", session_id="s") for number in range(5)])
        sender.send_messages(
            ServiceBusMessage("all", application_properties=PROPERTIES, time_to_live=timedelta(days=2), **TEXTS)
        )
        sender.schedule_messages(ServiceBusMessage("later", subject="s"), clock.now() + timedelta(hours=3))
    bus.send("abandoned", "deferred", "dead", "completed", partition_key="stages")
    receiver = bus.receiver()
    for message in bus.take():
        match body_of(message):
            case b"deferred":
                receiver.defer_message(message, properties_to_modify={"put": "aside"})
            case b"dead":
                receiver.dead_letter_message(message, "a reason", "a description")
            case b"completed":
                receiver.complete_message(message)
            case _:
                receiver.abandon_message(message, properties_to_modify={"tried": 1})


@pytest.mark.parametrize("way", WAYS)
def test_queue_is_unchanged_after_a_reopen(queue: Bus, clock: ManualClock, way: str) -> None:
    """Peek, counts and options show the same after the reopen as before (B-103 to B-119, B-290, B-389)."""
    fill(queue, clock)
    before = queue.observed_state()
    assert before["counts"]["total_message_count"] == len(BODIES) + 5 + 2 + 3
    clock.advance(60)
    queue.reopen(way)
    assert queue.observed_state() == before
    queue.reopen(way)
    assert queue.observed_state() == before


@pytest.mark.parametrize("way", WAYS)
def test_received_message_has_everything_it_was_sent_with(queue: Bus, way: str) -> None:
    """Body and properties of a received message equal those sent, for all types (B-047, B-428)."""
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("x", application_properties=PROPERTIES, **TEXTS))
    (peeked,) = queue.peek()
    queue.reopen(way)
    received = queue.take_one()
    assert {name: getattr(received, name) for name in TEXTS} == TEXTS
    assert received.application_properties == PROPERTIES
    assert {name: type(value) for name, value in received.application_properties.items()} == {
        name: type(value) for name, value in PROPERTIES.items()
    }
    assert described(received) == described(peeked)


@pytest.mark.parametrize("way", WAYS)
def test_order_of_a_key_stays(queue: Bus, way: str) -> None:
    """Messages of one key are delivered in send order, over several reopens (B-076, B-120)."""
    for step in range(3):
        with queue.sender() as sender:
            for number in range(4):
                for key in KEYS:
                    sender.send_messages(ServiceBusMessage(f"{step}.{number}", partition_key=key))
        queue.reopen(way)
    seen: dict[str | None, list[str]] = {}
    for message in queue.take():
        seen.setdefault(message.partition_key, []).append(str(message))
    assert seen == {key: [f"{step}.{number}" for step in range(3) for number in range(4)] for key in KEYS}


@pytest.mark.parametrize("way", WAYS)
def test_order_survives_a_partial_drain(queue: Bus, way: str) -> None:
    """The rest of a key keeps its order after some messages were completed and one was abandoned (B-120, B-163)."""
    queue.send(*"abcdef", partition_key="k")
    receiver = queue.receiver()
    first, second, third = (queue.take_one() for _ in range(3))
    receiver.complete_message(second)
    receiver.abandon_message(third)
    receiver.abandon_message(first)
    queue.reopen(way)
    messages = queue.take()
    assert bodies(messages) == list("acdef")
    assert [message.delivery_count for message in messages] == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("settled", ["complete", "receive and delete", "plural"])
def test_settled_message_never_returns(queue: Bus, settled: str, way: str) -> None:
    """After an acknowledged complete or receive-and-delete a message is neither delivered nor seen (B-146, B-162)."""
    for number in range(20):
        queue.send(str(number), partition_key=f"key-{number}")
    if settled == "receive and delete":
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with queue.client.get_queue_receiver("q", receive_mode=mode) as taker:
            taken = 0
            while taken < 20:
                taken += len(taker.receive_messages(max_message_count=7, max_wait_time=5))
    elif settled == "plural":
        queue.receiver().complete_messages(queue.take())
    else:
        for message in queue.take():
            queue.receiver().complete_message(message)
    for _ in range(2):
        queue.reopen(way)
        assert queue.take() == []
        assert queue.peek() == queue.peek(sub_queue="deadletter") == []
        assert queue.runtime().total_message_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_cancelled_schedule_never_returns(queue: Bus, clock: ManualClock, way: str) -> None:
    """An acknowledged cancel is final: the message is not there, and does not appear when it is due (B-238)."""
    with queue.sender() as sender:
        (number,) = sender.schedule_messages(ServiceBusMessage("x"), clock.now() + timedelta(minutes=5))
        sender.cancel_scheduled_messages(number)
    queue.reopen(way)
    with queue.sender() as sender, pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(number)
    clock.advance(600)
    assert queue.take() == []
    assert queue.runtime().total_message_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_batch_survives_completely(queue: Bus, way: str) -> None:
    """An accepted list of messages is stored as a whole, consecutively (B-079)."""
    batch = [ServiceBusMessage(str(number), partition_key="k") for number in range(100)]
    with queue.sender() as sender:
        sender.send_messages(batch)
    queue.reopen(way)
    messages = queue.take()
    assert bodies(messages) == [str(number) for number in range(100)]
    first = messages[0].sequence_number
    assert [message.sequence_number for message in messages] == list(range(first, first + 100))


def test_many_reopens(queue: Bus) -> None:
    """Twelve rounds of work, each ended in another way, leave exactly the messages not completed (B-103, B-162)."""
    expected: list[str] = []
    for step in range(12):
        queue.send(*(f"{step}.{number}" for number in range(6)), partition_key="k")
        expected += [f"{step}.{number}" for number in range(6)]
        for _ in range(4):
            message = queue.take_one()
            assert str(message) == expected.pop(0)
            queue.receiver().complete_message(message)
        queue.reopen((*WAYS, "checkpoint and close")[step % 4])
        assert bodies(queue.peek()) == expected
    messages = queue.take()
    assert bodies(messages) == expected
    numbers = [message.sequence_number for message in messages]
    assert numbers == sorted(set(numbers))


def test_checkpoint_in_the_middle_of_work_changes_nothing(queue: Bus, clock: ManualClock) -> None:
    """A checkpoint is not visible to clients, and later changes are also there after a reopen (B-103)."""
    fill(queue, clock)
    before = queue.observed_state()
    queue.namespace.checkpoint()
    assert queue.observed_state() == before
    queue.send("after", partition_key="k")
    queue.namespace.checkpoint()
    queue.namespace.checkpoint()
    queue.receiver().complete_message(queue.take_one())
    after = queue.peek()
    queue.reopen("crash")
    assert [described(message) | {"delivery_count": 0} for message in queue.peek()] == [
        described(message) | {"delivery_count": 0} for message in after
    ]


def test_files_do_not_pile_up(queue: Bus) -> None:
    """Opening and closing without work does not add files without end (docs/format.md, order of writing)."""
    queue.send("x")
    files = []
    for _ in range(12):
        queue.reopen()
        files.append(sum(1 for path in queue.path.rglob("*") if path.is_file()))
    # Each shard may or may not have its next segment ready when it closes.
    assert files[-1] <= max(files[:4]) + PARTITIONS
    assert bodies(queue.peek()) == ["x"]


@pytest.mark.parametrize("way", WAYS)
def test_recovery_reports_what_opening_read(queue: Bus, way: str) -> None:
    """After a crash there are frames to read; nothing was cut, nothing is damaged (docs/format.md, torn or damaged)."""
    queue.send("x")
    namespace = queue.reopen(way)
    recovery = namespace.recovery
    assert recovery is not None
    assert (recovery.truncated_bytes, list(recovery.corrupt_partitions)) == (0, [])
    assert isinstance(recovery.frames, int)
    assert isinstance(recovery.seconds, float)
    assert recovery.seconds >= 0
    assert recovery.frames > 0 or way != "crash"
