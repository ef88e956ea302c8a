# SPDX-License-Identifier: Apache-2.0
"""Duplicate detection: a duplicate within the window is accepted and dropped (B-218 to B-231, B-066 to B-069)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pyarrow as pa
import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessageNotFoundError,
    PartitionUnavailableError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.testing import ManualClock

WINDOW = timedelta(minutes=10)
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def message(body: str, message_id: str | None = "m", **options: Any) -> ServiceBusMessage:
    """A message, with a common id by default."""
    return ServiceBusMessage(body, message_id=message_id, **options)


@pytest.fixture
def detecting(make_queue: Callable[..., str]) -> str:
    """A queue with duplicate detection, partitioned if `partitioned` is true."""
    return make_queue(requires_duplicate_detection=True)


@pytest.fixture
def bodies(client: ServiceBusClient, detecting: str, peek_all: Callable[..., list[ServiceBusReceivedMessage]]) -> Any:
    """Return the bodies in `detecting`, in order."""
    return lambda: sorted(str(found) for found in peek_all(client, detecting))


@pytest.fixture
def to(client: ServiceBusClient, detecting: str) -> ServiceBusSender:
    """A sender to `detecting`."""
    return client.get_queue_sender(detecting)


def test_a_copy_within_the_window_is_accepted_and_dropped(
    to: ServiceBusSender, bodies: Callable[[], list[str]], clock: ManualClock
) -> None:
    """The send succeeds; the window starts at the first message and is not extended (B-219, B-226)."""
    to.send_messages(message("first"))
    clock.advance(WINDOW.total_seconds() - 1)
    to.send_messages(message("copy"))
    assert bodies() == ["first"]
    clock.advance(1)
    to.send_messages(message("after the window"))
    to.send_messages(message("copy of that"))
    assert bodies() == ["after the window", "first"]


def test_a_completed_message_is_remembered(
    client: ServiceBusClient,
    to: ServiceBusSender,
    detecting: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """An id is remembered after its message is completed or dead-lettered (B-226)."""
    with client.get_queue_receiver(detecting) as receiver:
        for message_id, settle in (("c", receiver.complete_message), ("d", receiver.dead_letter_message)):
            to.send_messages(message("first", message_id))
            settle(receive_one(receiver))
            to.send_messages(message("copy", message_id))
        assert receiver.receive_messages(max_wait_time=0) == []


def test_an_expired_message_is_remembered(
    client: ServiceBusClient, to: ServiceBusSender, detecting: str, clock: ManualClock
) -> None:
    """An id is remembered after its message expires (B-226)."""
    to.send_messages(message("first", time_to_live=timedelta(seconds=5)))
    clock.advance(6)
    to.send_messages(message("copy"))
    with client.get_queue_receiver(detecting) as receiver:
        assert receiver.receive_messages(max_wait_time=0) == []


def test_ids_are_compared_exactly(to: ServiceBusSender, bodies: Callable[[], list[str]]) -> None:
    """Ids differ by case and accents, and other properties are not compared (B-220, B-231)."""
    ids = ["a", "A", "\u00e9", "e\u0301", " a", "a "]
    for message_id in ids:
        to.send_messages(message(repr(message_id), message_id))
        to.send_messages(message("copy", message_id, subject="another", application_properties={"n": 1}))
    assert bodies() == sorted(map(repr, ids))


def test_numbers_have_no_gap_for_copies(
    client: ServiceBusClient, to: ServiceBusSender, detecting: str, peek_all: Callable[..., Any]
) -> None:
    """A dropped duplicate uses no sequence number (B-227)."""
    for number in range(6):
        to.send_messages(message("x", f"id {number // 2}", partition_key="k"))
    numbers = [found.sequence_number for found in peek_all(client, detecting)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_keys_and_sessions_tell_ids_apart_where_there_are_partitions(
    to: ServiceBusSender, bodies: Callable[[], list[str]], partitioned: bool
) -> None:
    """In a partitioned queue the same id with another key is not a duplicate (B-220, B-221, B-222)."""
    to.send_messages(message("key a", partition_key="a"))
    to.send_messages(message("key b", partition_key="b"))
    to.send_messages(message("session c", session_id="c"))
    to.send_messages(message("key a again", partition_key="a"))
    assert bodies() == (["key a", "key b", "session c"] if partitioned else ["key a"])


def test_keys_of_one_partition_are_distinguished(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    key_in: Callable[[int], str],
    peek_all: Callable[..., Any],
) -> None:
    """A duplicate has the same id and key, not only the same partition (B-220)."""
    admin.create_queue("parts", enable_partitioning=True, requires_duplicate_detection=True)
    first = key_in(3)
    second = next(key for number in range(10_000) if oxbus.partition_id(key := f"other {number}") == 3)
    with client.get_queue_sender("parts") as sender:
        for key in (first, second, first, second):
            sender.send_messages(message(key, partition_key=key))
    assert sorted(str(found) for found in peek_all(client, "parts")) == sorted([first, second])


def test_the_id_is_the_key_of_a_partitioned_queue(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, peek_all: Callable[..., Any]
) -> None:
    """The message id is the key unless there is a session id or partition key (B-063, B-066)."""
    admin.create_queue("parts", enable_partitioning=True, requires_duplicate_detection=True)
    with client.get_queue_sender("parts") as sender:
        for number in range(40):
            sender.send_messages(message("by id", f"id {number}"))
            sender.send_messages(message("by key", f"id {number}", partition_key="k"))
    for found in peek_all(client, "parts"):
        key = "k" if str(found) == "by key" else found.message_id
        assert found.partition_id == oxbus.partition_id(key)
        assert found.partition_key == ("k" if key == "k" else None)


def test_without_any_key_a_partitioned_queue_refuses_and_a_plain_one_does_not_check(
    to: ServiceBusSender,
    detecting: str,
    partitioned: bool,
    bodies: Callable[[], list[str]],
    snapshot: Callable[..., Any],
) -> None:
    """Without key and id a partitioned queue refuses a message; a plain one stores it unchecked (B-068, B-229)."""
    if not partitioned:
        for _ in range(2):
            to.send_messages(message("no id", None))
        assert bodies() == ["no id", "no id"]
        return
    before = snapshot(detecting)
    for call in (to.send_messages, lambda it: to.send_messages([it]), lambda it: to.schedule_messages(it, FAR)):
        with pytest.raises(InvalidOperationError, match="must have either PartitionKey or MessageId"):
            call(message("no id", None))
    assert snapshot(detecting) == before


def test_a_keyed_message_without_an_id_is_not_checked(to: ServiceBusSender, bodies: Callable[[], list[str]]) -> None:
    """Duplicates are detected by message id only (B-220, B-229)."""
    for _ in range(2):
        to.send_messages(message("keyed", None, partition_key="k"))
    assert bodies() == ["keyed", "keyed"]


def test_copies_in_a_batch_are_dropped(to: ServiceBusSender, bodies: Callable[[], list[str]]) -> None:
    """Duplicates of earlier messages and within a batch are dropped; the others are stored (B-219)."""
    to.send_messages(message("first", "1", partition_key="k"))
    to.send_messages([message(f"batch {message_id}", message_id, partition_key="k") for message_id in "01223"])
    assert bodies() == ["batch 0", "batch 2", "batch 3", "first"]
    batch = to.create_message_batch()
    for message_id in "34":
        batch.add_message(message(f"object {message_id}", message_id, partition_key="k"))
    to.send_messages(batch)
    to.send_messages(batch)
    assert bodies() == ["batch 0", "batch 2", "batch 3", "first", "object 4"]


def test_a_batch_of_several_keys_is_refused_where_there_are_partitions(
    to: ServiceBusSender,
    detecting: str,
    partitioned: bool,
    bodies: Callable[[], list[str]],
    snapshot: Callable[..., Any],
) -> None:
    """Different ids are different keys there: the service's error, and nothing stored (B-068, B-082, B-084)."""
    for mixed in (
        [message("a", "1"), message("b", "2")],
        [message("a", "1", partition_key="x"), message("b", "1", partition_key="y")],
        [message("a", "x"), message("b", "1", partition_key="y")],
    ):
        if partitioned:
            before = snapshot(detecting)
            with pytest.raises(InvalidOperationError, match="PartitionKey, or MessageId  is not supported"):
                to.send_messages(mixed)
            assert snapshot(detecting) == before
        else:
            to.send_messages(mixed)
    if partitioned:
        to.send_messages([message("a", "1"), message("copy", "1")])
    assert bodies() == (["a"] if partitioned else ["a", "a", "b"])


def test_scheduled_messages_take_part_both_ways(
    to: ServiceBusSender, bodies: Callable[[], list[str]], clock: ManualClock
) -> None:
    """The second of a scheduled and an immediate message is dropped, in either order (B-225)."""
    due = clock.now() + timedelta(minutes=1)
    to.schedule_messages(message("scheduled", "1"), due)
    to.send_messages(message("copy", "1"))
    to.send_messages(message("sent", "2"))
    number = to.schedule_messages(message("copy", "2"), due)[0]
    clock.advance(61)
    assert bodies() == ["scheduled", "sent"]
    with pytest.raises(MessageNotFoundError):
        to.cancel_scheduled_messages(number)


def test_numbers_of_a_scheduled_list_name_its_new_messages(
    client: ServiceBusClient, to: ServiceBusSender, detecting: str, clock: ManualClock, peek_all: Callable[..., Any]
) -> None:
    """The number returned for a duplicate names no message; the other numbers are valid (B-227, B-236)."""
    due = clock.now() + timedelta(minutes=1)
    listed = [message(message_id, message_id, partition_key="k") for message_id in "1232"]
    numbers = to.schedule_messages(listed, due)
    held = {str(found): found.sequence_number for found in peek_all(client, detecting)}
    assert [held.get(str(each)) for each in listed[:3]] == numbers[:3]
    assert numbers[3] not in held.values()
    to.cancel_scheduled_messages(numbers[:3])
    assert peek_all(client, detecting) == []


def test_a_canceled_message_is_remembered(
    to: ServiceBusSender, bodies: Callable[[], list[str]], clock: ManualClock
) -> None:
    """A cancelled message's id stays in the history (B-226)."""
    number = to.schedule_messages(message("scheduled"), clock.now() + timedelta(minutes=1))
    to.cancel_scheduled_messages(number)
    to.send_messages(message("copy"))
    assert bodies() == []


def test_the_window_can_be_changed_and_the_flag_cannot(
    admin: ServiceBusAdministrationClient,
    to: ServiceBusSender,
    detecting: str,
    bodies: Callable[[], list[str]],
    clock: ManualClock,
) -> None:
    """A new window applies to ids already remembered (B-218, B-223, B-224)."""
    queue = admin.get_queue(detecting)
    assert queue.duplicate_detection_history_time_window == WINDOW
    assert queue.requires_duplicate_detection is True
    to.send_messages(message("first"))
    clock.advance(30)
    queue.duplicate_detection_history_time_window = timedelta(seconds=20)
    admin.update_queue(queue)
    assert admin.get_queue(detecting).duplicate_detection_history_time_window == timedelta(seconds=20)
    to.send_messages(message("second"))
    assert bodies() == ["first", "second"]
    queue.requires_duplicate_detection = False
    with pytest.raises(InvalidOperationError, match="requires_duplicate_detection"):
        admin.update_queue(queue)
    assert admin.get_queue(detecting).requires_duplicate_detection is True


def test_another_queue_remembers_for_itself(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    to: ServiceBusSender,
    detecting: str,
    peek_all: Callable[..., Any],
) -> None:
    """Each queue has its own history, and a recreated queue starts empty (B-220)."""
    other = make_queue("other", requires_duplicate_detection=True)
    to.send_messages(message("here"))
    with client.get_queue_sender(other) as sender:
        sender.send_messages(message("there"))
    assert [str(found) for name in (detecting, other) for found in peek_all(client, name)] == ["here", "there"]


def test_a_table_is_checked_row_by_row(
    to: ServiceBusSender, partitioned: bool, bodies: Callable[[], list[str]]
) -> None:
    """Duplicate rows are dropped; in a partitioned queue each row goes to the partition of its key (B-063, B-219)."""
    ids = [f"id {number % 50}" for number in range(100)]
    table = pa.table({"body": pa.array([f"row {number:03}".encode() for number in range(100)]), "message_id": ids})
    to.send_messages(message("first", "id 7"))
    to.send_arrow(table)
    to.send_arrow(table)
    assert bodies() == sorted(["first", *(f"row {number:03}" for number in range(50) if number != 7)])
    without = pa.table({"body": pa.array([b"no id"])})
    if partitioned:
        with pytest.raises(InvalidOperationError, match=r"row 0.*must have either PartitionKey or MessageId"):
            to.send_arrow(without)
    else:
        to.send_arrow(without)
        assert "no id" in bodies()


def test_a_refused_message_was_never_seen(
    namespace: Namespace, client: ServiceBusClient, detecting: str, partitioned: bool, bodies: Callable[[], list[str]]
) -> None:
    """When the store refuses a message, its id is not remembered (B-074, B-219)."""
    partition = oxbus.partition_id("m") if partitioned else None
    with client.get_queue_sender(detecting) as sender:
        sender.send_messages(message("makes the files", "other", partition_key="m"))
        for each in range(16) if partition is None else [partition]:
            inject_fault(namespace, each, "unavailable")
        with pytest.raises(PartitionUnavailableError):
            sender.send_messages(message("refused"))
        for each in range(16) if partition is None else [partition]:
            heal(namespace, each)
        sender.send_messages(message("first"))
    assert bodies() == ["first", "makes the files"]


def test_one_of_many_concurrent_duplicates_is_stored(
    client: ServiceBusClient, detecting: str, bodies: Callable[[], list[str]]
) -> None:
    """Of duplicates sent concurrently, one is stored (B-219)."""
    threads, ids = 8, 60
    ready = threading.Barrier(threads)

    def send(side: int) -> None:
        with client.get_queue_sender(detecting) as sender:
            ready.wait()
            for number in range(ids):
                sender.send_messages(message(f"{number:02}", f"id {(number + side * 7) % ids}"))

    workers = [threading.Thread(target=send, args=(side,)) for side in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(bodies()) == ids


def test_forgotten_ids_take_no_memory(open_namespace: Callable[..., Namespace], clock: ManualClock) -> None:
    """Ids count toward the memory limit only until their window ends (B-226)."""
    namespace = open_namespace(memory_limit_bytes=4 << 20, clock=clock)
    ServiceBusAdministrationClient(namespace).create_queue("q", requires_duplicate_detection=True)
    client = oxbus.ServiceBusClient(namespace)
    sent = 0
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:

        def fill() -> None:
            nonlocal sent
            while True:
                sender.send_messages([message("x", f"id {sent + number}") for number in range(1000)])
                sent += 1000
                receiver.complete_messages(receiver.receive_messages(1000, max_wait_time=0))

        for _ in range(2):
            with pytest.raises(ServiceBusQuotaExceededError):
                fill()
            clock.advance(WINDOW.total_seconds())
    assert sent > 20_000
