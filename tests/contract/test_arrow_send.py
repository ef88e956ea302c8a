# SPDX-License-Identifier: Apache-2.0
"""Sending Arrow rows: their partitions, accepted shapes, refusals (`send_arrow`, an extension)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, PartialSendError, ServiceBusError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

SENT_COLUMNS = {
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
}


def test_rows_go_where_their_keys_say_in_order(
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    bodies: Callable[[int], Any],
) -> None:
    """Rows of mixed keys go each to its partition, in row order, with consecutive numbers (B-062, B-076, B-105)."""
    keys = [f"key-{number % 37}" for number in range(1000)]
    table = bodies(1000).append_column("partition_key", pa.array(keys))
    with client.get_queue_sender(partitioned_queue) as sender:
        report = sender.send_arrow(table)
    expected = Counter(oxbus.partition_id(key) for key in keys)
    assert dict(report) == dict(expected)
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    assert Counter(message.partition_id for message in messages) == expected
    assert [message.partition_id for message in messages] == [
        oxbus.partition_id(message.partition_key or "") for message in messages
    ]
    for partition_id in expected:
        part = [message for message in messages if message.partition_id == partition_id]
        assert [message.sequence_number & ((1 << 48) - 1) for message in part] == list(range(1, len(part) + 1))
        rows = [int(str(message)) for message in part]
        assert rows == sorted(rows)


def test_session_id_is_the_key_of_a_row(
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    bodies: Callable[[int], Any],
) -> None:
    """A row with a session id goes to the session id's partition (B-063, B-065)."""
    sessions = [f"s{number}" for number in range(50)]
    with client.get_queue_sender(partitioned_queue) as sender:
        sender.send_arrow(bodies(50).append_column("session_id", pa.array(sessions)))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        found = {message.session_id: message.partition_id for message in drain(receiver)}
    assert found == {session: oxbus.partition_id(session) for session in sessions}


def test_keyless_rows_are_spread_over_the_partitions(
    client: ServiceBusClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    bodies: Callable[[int], Any],
) -> None:
    """Rows without a key use all partitions about evenly (B-072)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        report = sender.send_arrow(bodies(1600))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        found = Counter(message.partition_id for message in drain(receiver))
    assert dict(report) == dict(found)
    assert set(found) == set(range(16))
    assert min(found.values()) >= 50


def test_rows_of_a_plain_queue_keep_their_order(
    client: ServiceBusClient, plain_queue: str, take: Callable[..., Any], bodies: Callable[[int], Any]
) -> None:
    """A plain queue accepts any keys and keeps row order (B-084, B-120)."""
    table = bodies(500).append_column("partition_key", pa.array([f"key-{number % 7}" for number in range(500)]))
    with client.get_queue_sender(plain_queue) as sender:
        report = sender.send_arrow(table)
    assert sum(dict(report).values()) == 500
    with client.get_queue_receiver(plain_queue) as receiver:
        received = take(receiver)
    assert received.column("body").to_pylist() == table.column("body").to_pylist()
    assert received.column("sequence_number").to_pylist() == list(range(1, 501))


@pytest.mark.parametrize("source", ["table", "batch", "reader", "chunked", "sliced", "struct array"])
def test_every_pyarrow_shape_is_taken(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    take: Callable[..., Any],
    source: str,
    bodies: Callable[[int], Any],
) -> None:
    """Any object with an Arrow stream or array can be sent, also chunked and sliced data (api: Arrow)."""
    table = bodies(100)
    payload = {
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(max_chunksize=7),
        "chunked": lambda: pa.concat_tables([table.slice(0, 30), table.slice(30, 70)]),
        "sliced": lambda: pa.concat_tables([bodies(3), table]).slice(3),
        "struct array": lambda: table.to_struct_array().combine_chunks(),
    }[source]()
    sender.send_arrow(payload)
    received = take(receiver).column("body").to_pylist()
    assert sorted(received, key=int) == table.column("body").to_pylist()


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("binary", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_every_width_of_text_and_bytes_is_taken(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any], text: Any, binary: Any
) -> None:
    """Small, large and view layouts of text and bytes mean the same (api: Arrow)."""
    payload: list[bytes] = [b"a", b"", b"a body longer than twelve bytes"]
    subjects = ["short", None, "a subject longer than twelve bytes"]
    sender.send_arrow(pa.table({"body": pa.array(payload, binary), "subject": pa.array(subjects, text)}))
    rows = take(receiver).select(["body", "subject"]).to_pylist()
    expected: list[dict[str, Any]] = [
        {"body": body, "subject": subject} for body, subject in zip(payload, subjects, strict=True)
    ]
    assert sorted(rows, key=lambda row: row["body"]) == sorted(expected, key=lambda row: row["body"])


def test_polars_frames_are_taken(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any]
) -> None:
    """A polars frame can be sent and a received batch can become one (api: Arrow)."""
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "body": [b"one", b"two"],
            "partition_key": ["k", "k"],
            "time_to_live": [timedelta(hours=1), None],
            "scheduled_enqueue_time_utc": pl.Series([None, None], dtype=pl.Datetime("us", "UTC")),
        }
    )
    sender.send_arrow(frame)
    received = pl.DataFrame(take(receiver).select(["body", "partition_key", "delivery_count"]))
    assert received.rows() == [(b"one", "k", 0), (b"two", "k", 0)]


def test_missing_columns_and_nulls_mean_not_set(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A null means a property that is not set, or no body (api: Arrow)."""
    rows = [{"body": b"x", "subject": None, "message_id": None}, {"body": None, "subject": "s", "message_id": "m"}]
    schema = pa.schema([(name, SENT_COLUMNS[name]) for name in ("body", "subject", "message_id")])
    sender.send_arrow(pa.Table.from_pylist(rows, schema=schema))
    found = {message.subject: message for message in drain(receiver)}
    assert set(found) == {None, "s"}
    assert found["s"].message_id == "m"
    assert found[None].message_id
    body: Any = found["s"].body
    assert body is None or b"".join(body) == b""
    assert (found["s"].correlation_id, found["s"].time_to_live) == (None, None)


def test_table_without_rows_sends_nothing(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], bodies: Callable[[int], Any]
) -> None:
    """No rows is no error (api: Arrow)."""
    before = snapshot(queue_name)
    assert sum(dict(sender.send_arrow(bodies(0))).values()) == 0
    assert snapshot(queue_name) == before


def test_scheduled_rows_wait(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    take: Callable[..., Any],
    bodies: Callable[[int], Any],
) -> None:
    """A row with a scheduled time waits for it (B-232)."""
    due = [None, clock.now() + timedelta(minutes=1), clock.now() - timedelta(minutes=1)]
    column = pa.array(due, pa.timestamp("us", tz="UTC"))
    sender.send_arrow(bodies(3).append_column("scheduled_enqueue_time_utc", column))
    assert sorted(take(receiver).column("body").to_pylist()) == [b"0", b"2"]
    clock.advance(59)
    assert take(receiver).num_rows == 0
    clock.advance(1)
    assert b"1" in take(receiver).column("body").to_pylist()


def test_rows_expire(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    take: Callable[..., Any],
    bodies: Callable[[int], Any],
) -> None:
    """A row expires after its time to live (B-246)."""
    column = pa.array([timedelta(seconds=10), None, timedelta(seconds=100)], pa.duration("us"))
    sender.send_arrow(bodies(3).append_column("time_to_live", column))
    clock.advance(11)
    assert sorted(take(receiver).column("body").to_pylist()) == [b"1", b"2"]


@pytest.mark.parametrize("name", ["colour", "sequence_number", "lock_token", "Body"])
def test_unknown_column_is_refused_by_name(
    sender: ServiceBusSender,
    queue_name: str,
    snapshot: Callable[[str], object],
    name: str,
    bodies: Callable[[int], Any],
) -> None:
    """An unknown column is a ValueError that names it, and nothing is sent (api: Arrow)."""
    before = snapshot(queue_name)
    with pytest.raises(ValueError, match=name):
        sender.send_arrow(bodies(3).append_column(name, pa.array(["a", "b", "c"])))
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("name", SENT_COLUMNS)
def test_wrong_type_is_refused_by_name(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], name: str
) -> None:
    """A column of the wrong type is a ValueError that names it, and nothing is sent (api: Arrow)."""
    before = snapshot(queue_name)
    columns = {"body": pa.array([b"a", b"b"]), name: pa.array([1.5, 2.5], pa.float64())}
    with pytest.raises(ValueError, match=name):
        sender.send_arrow(pa.table(columns))
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("name", ["message_id", "session_id", "partition_key"])
def test_long_key_refuses_the_rows(
    sender: ServiceBusSender,
    queue_name: str,
    snapshot: Callable[[str], object],
    name: str,
    bodies: Callable[[int], Any],
) -> None:
    """A key of more than 128 characters in any row is a ValueError that names the column (B-047)."""
    before = snapshot(queue_name)
    with pytest.raises(ValueError, match=f"{name}.*128"):
        sender.send_arrow(bodies(3).append_column(name, pa.array(["a", "x" * 129, "b"])))
    assert snapshot(queue_name) == before


def test_different_session_id_and_partition_key_refuse_the_rows(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], bodies: Callable[[int], Any]
) -> None:
    """A row whose two keys differ is an invalid operation and no row is sent (B-064)."""
    before = snapshot(queue_name)
    table = (
        bodies(2).append_column("session_id", pa.array(["a", "b"])).append_column("partition_key", pa.array(["a"] * 2))
    )
    with pytest.raises(InvalidOperationError):
        sender.send_arrow(table)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("data", [None, 1, b"bytes", [b"a"], {"body": [b"a"]}, [ServiceBusMessage(b"x")]], ids=repr)
def test_data_without_arrow_is_refused(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], data: Any
) -> None:
    """Data without the Arrow interface is a TypeError that names the accepted types (api: Arrow)."""
    before = snapshot(queue_name)
    with pytest.raises(TypeError, match="arrow"):
        sender.send_arrow(data)
    assert snapshot(queue_name) == before


@pytest.mark.parametrize("fault", ["unavailable", "busy", "enospc"])
def test_partial_send_names_the_rows_that_were_not_stored(
    namespace: Namespace,
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    fault: str,
    bodies: Callable[[int], Any],
) -> None:
    """The error names rows of a faulted partition by index; they can be sent later; others are stored (B-074)."""
    keys = [None if number % 4 == 0 else key_in(number % 4) for number in range(100)]
    table = bodies(100).append_column("partition_key", pa.array(keys, pa.string()))
    inject_fault(namespace, 2, fault)
    with client.get_queue_sender(partitioned_queue) as sender:
        with pytest.raises(PartialSendError) as partial:
            sender.send_arrow(table)
        lost = [number for number in range(100) if number % 4 == 2]
        assert sorted(partial.value.rows) == lost
        assert isinstance(partial.value, ServiceBusError)
        stored = partial.value.partitions
        assert (sum(stored.values()), stored.get(2, 0)) == (75, 0)
        assert (stored[1], stored[3]) >= (25, 25)
        heal(namespace, 2)
        sender.send_arrow(table.take(partial.value.rows))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        messages = drain(receiver)
    assert sorted(int(str(message)) for message in messages) == list(range(100))
    assert {int(str(message)) for message in messages if message.partition_id == 2} >= set(lost)


def test_keyless_rows_avoid_a_faulted_partition(
    namespace: Namespace, client: ServiceBusClient, partitioned_queue: str, bodies: Callable[[int], Any]
) -> None:
    """Rows without a key are all stored while a partition is down (B-073)."""
    inject_fault(namespace, 2, "unavailable")
    with client.get_queue_sender(partitioned_queue) as sender:
        report = dict(sender.send_arrow(bodies(160)))
    assert (sum(report.values()), report.get(2, 0)) == (160, 0)


def test_far_times_survive(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, bodies: Callable[[int], Any]
) -> None:
    """A scheduled time in the year 2999 is kept to the millisecond (B-232)."""
    due = datetime(2999, 1, 1, 1, 2, 3, 456_000, tzinfo=UTC)
    column = pa.array([due], pa.timestamp("us", tz="UTC"))
    sender.send_arrow(bodies(1).append_column("scheduled_enqueue_time_utc", column))
    (peeked,) = receiver.peek_messages()
    assert peeked.scheduled_enqueue_time_utc == due
