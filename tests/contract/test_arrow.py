# SPDX-License-Identifier: Apache-2.0
"""Arrow in and out: the columns of a message (`receive_arrow`, an extension; R-06, R-21)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

RECEIVED_COLUMNS = {
    "body": pa.binary(),
    "message_id": pa.string(),
    "session_id": pa.string(),
    "partition_key": pa.string(),
    "subject": pa.string(),
    "correlation_id": pa.string(),
    "content_type": pa.string(),
    "to": pa.string(),
    "reply_to": pa.string(),
    "application_properties": pa.map_(pa.string(), pa.string()),
    "scheduled_enqueue_time_utc": pa.timestamp("us", tz="UTC"),
    "time_to_live": pa.duration("us"),
    "sequence_number": pa.int64(),
    "partition_id": pa.int16(),
    "enqueued_time_utc": pa.timestamp("us", tz="UTC"),
    "locked_until_utc": pa.timestamp("us", tz="UTC"),
    "delivery_count": pa.int32(),
    "lock_token": pa.binary(16),
    "dead_letter_reason": pa.string(),
    "dead_letter_error_description": pa.string(),
}


def test_columns_and_types_of_received_batches(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, queue_name: str
) -> None:
    """A received batch has one column for each message property, with the documented type (api: Arrow)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    table = pa.table(receiver.receive_arrow(max_message_count=10, max_wait_time=0))
    assert queue_name
    types = {field.name: field.type for field in table.schema}
    assert {name: types.get(name) for name in RECEIVED_COLUMNS} == RECEIVED_COLUMNS
    assert set(types) == {*RECEIVED_COLUMNS, "state"}


def test_empty_batch_has_the_same_columns(receiver: ServiceBusReceiver) -> None:
    """A receive that finds nothing gives no rows and all columns (api: Arrow)."""
    table = pa.table(receiver.receive_arrow(max_message_count=10, max_wait_time=0))
    assert table.num_rows == 0
    assert set(table.column_names) == {*RECEIVED_COLUMNS, "state"}


def test_arrow_rows_are_messages(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A row arrives as a message with the properties of its columns (R-06)."""
    row = {
        "body": b"body",
        "message_id": "id-1",
        "session_id": "k",
        "partition_key": "k",
        "subject": "subject",
        "correlation_id": "c",
        "content_type": "text/plain",
        "to": "to",
        "reply_to": "back",
        "application_properties": [("a", "1"), ("b", "2")],
        "scheduled_enqueue_time_utc": None,
        "time_to_live": timedelta(minutes=5),
    }
    sender.send_arrow(pa.Table.from_pylist([row], schema=pa.schema([(name, RECEIVED_COLUMNS[name]) for name in row])))
    message = receive_one(receiver)
    names = [name for name in row if name not in {"body", "application_properties"}]
    assert {name: getattr(message, name) for name in names} == {name: row[name] for name in names}
    assert b"".join(message.body) == b"body"
    assert message.application_properties == {"a": "1", "b": "2"}
    receiver.complete_message(message)


def test_messages_are_arrow_rows(sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock) -> None:
    """A message arrives as a row with its properties (R-06)."""
    now = clock.now()
    sender.send_messages(
        ServiceBusMessage(
            b"body",
            message_id="id-1",
            partition_key="k",
            subject="subject",
            application_properties={"a": "1"},
            time_to_live=timedelta(minutes=5),
        )
    )
    (row,) = pa.table(receiver.receive_arrow(max_message_count=10, max_wait_time=0)).to_pylist()
    expected = {
        "body": b"body",
        "message_id": "id-1",
        "session_id": None,
        "partition_key": "k",
        "subject": "subject",
        "application_properties": [("a", "1")],
        "time_to_live": timedelta(minutes=5),
        "enqueued_time_utc": now,
        "locked_until_utc": now + timedelta(minutes=1),
        "delivery_count": 0,
        "dead_letter_reason": None,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["sequence_number"] & ((1 << 48) - 1) == 1
    assert len(row["lock_token"]) == 16


def test_partition_id_is_null_on_a_plain_queue(
    client: ServiceBusClient, plain_queue: str, partitioned_queue: str
) -> None:
    """The partition column names the partition of a partitioned queue and is null otherwise (B-104, B-106)."""
    found = []
    for name in (plain_queue, partitioned_queue):
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
            sender.send_messages(ServiceBusMessage(b"x", partition_key="k"))
            table = pa.table(receiver.receive_arrow(max_message_count=1, max_wait_time=0))
            found += table.column("partition_id").to_pylist()
    assert found == [None, oxbus.partition_id("k")]


def test_lock_token_is_the_one_of_the_message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Tokens of rows and of messages have one layout: the 16 little-endian bytes of a UUID (B-150)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(2)])
    message = receive_one(receiver)
    (row,) = pa.table(receiver.receive_arrow(max_message_count=10, max_wait_time=0)).to_pylist()
    token = UUID(bytes_le=row["lock_token"])
    assert isinstance(message.lock_token, UUID)
    assert token != message.lock_token
    # Partition and number are part of the token, so tokens of one partition share their first bytes.
    assert row["lock_token"][:2] == message.lock_token.bytes_le[:2]


def test_application_properties_of_other_types_become_text(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    """The property column holds text, so values of other types are shown as text (api: Arrow)."""
    sender.send_messages(ServiceBusMessage(b"x", application_properties={"text": "t", "number": 7}))
    (row,) = pa.table(receiver.receive_arrow(max_message_count=1, max_wait_time=0)).to_pylist()
    assert dict(row["application_properties"]) == {"text": "t", "number": "7"}


def test_state_column(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """The state column shows that a message is active (B-292)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    (row,) = pa.table(receiver.receive_arrow(max_message_count=1, max_wait_time=0)).to_pylist()
    assert row["state"] in (ServiceBusMessageState.ACTIVE, "active", "Active")


def test_waiting_arrow_receive_wakes(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, in_background: Callable[..., Any]
) -> None:
    """An Arrow receive waits and wakes like any other (B-132, R-21)."""
    waiting = in_background(receiver.receive_arrow, max_message_count=10, max_wait_time=600)
    sender.send_messages(ServiceBusMessage(b"x"))
    assert pa.table(waiting.result()).column("body").to_pylist() == [b"x"]


def test_round_trip_of_many_rows(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any], bodies: Callable[[int], Any]
) -> None:
    """A hundred thousand rows with keys are each received once with their bodies (R-01, R-04, R-06)."""
    total = 100_000
    keys = pa.array([f"key-{number % 997}" for number in range(total)])
    sender.send_arrow(bodies(total).append_column("partition_key", keys))
    table = take(receiver, 10_000)
    assert sorted(map(int, table.column("body").to_pylist())) == list(range(total))
    receiver.settle_arrow(table, "complete")
    assert take(receiver).num_rows == 0


def test_partition_ids_agrees_with_partition_id() -> None:
    """Hashing an Arrow column gives the partition of each key, and null for null (B-062)."""
    keys = ["", "a", "N12345", None, "schlüssel"]
    for column in (pa.array(keys), pa.array(keys, pa.large_string()), pa.array(keys, pa.string_view())):
        for partitions in (1, 7, 16, 1000):
            numbers = pa.array(oxbus.partition_ids(column, partitions))
            assert numbers.type == pa.int32()
            expected = [None if key is None else oxbus.partition_id(key, partitions) for key in keys]
            assert numbers.to_pylist() == expected
