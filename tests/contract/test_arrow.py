# SPDX-License-Identifier: Apache-2.0
"""Arrow in and out: `send_arrow`, `receive_arrow`, `settle_arrow` (an extension of ours; B-062, B-072, B-105, R-06)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from oxbus.exceptions import InvalidOperationError, MessageLockLostError, PartialSendError, ServiceBusError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

Outcome = Literal["complete", "abandon", "defer", "dead_letter"]
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
RECEIVED_COLUMNS = {
    **SENT_COLUMNS,
    "sequence_number": pa.int64(),
    "partition_id": pa.int16(),
    "enqueued_time_utc": pa.timestamp("us", tz="UTC"),
    "locked_until_utc": pa.timestamp("us", tz="UTC"),
    "delivery_count": pa.int32(),
    "lock_token": pa.binary(16),
    "dead_letter_reason": pa.string(),
    "dead_letter_error_description": pa.string(),
}
OUTCOMES: tuple[Outcome, ...] = ("complete", "abandon", "defer", "dead_letter")


@pytest.fixture
def take() -> Callable[..., Any]:
    """Receive Arrow batches until nothing more comes, and return them as one table."""

    def take(receiver: ServiceBusReceiver, max_message_count: int = 1000) -> Any:
        tables = []
        empty = 0
        while empty < 3:
            table = pa.table(receiver.receive_arrow(max_message_count=max_message_count, max_wait_time=0))
            assert table.num_rows <= max_message_count
            tables.append(table)
            empty = 0 if table.num_rows else empty + 1
        return pa.concat_tables(tables)

    return take


def bodies(count: int) -> Any:
    """A table of messages with the bodies "0", "1", …."""
    return pa.table({"body": pa.array([str(number).encode() for number in range(count)], pa.binary())})


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
    sender.send_arrow(pa.Table.from_pylist([row], schema=pa.schema(SENT_COLUMNS)))
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
    """Tokens of rows and of messages have one layout: 16 bytes, as a UUID's little-endian bytes (B-150)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(2)])
    message = receive_one(receiver)
    (row,) = pa.table(receiver.receive_arrow(max_message_count=10, max_wait_time=0)).to_pylist()
    token = UUID(bytes_le=row["lock_token"])
    assert isinstance(message.lock_token, UUID)
    assert token != message.lock_token
    # Partition and number are part of the token, so that two tokens of one partition share their head.
    assert row["lock_token"][:2] == message.lock_token.bytes_le[:2]


def test_rows_go_where_their_keys_say_in_order(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
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
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A row with a session id goes to the session id's partition (B-063, B-065)."""
    sessions = [f"s{number}" for number in range(50)]
    with client.get_queue_sender(partitioned_queue) as sender:
        sender.send_arrow(bodies(50).append_column("session_id", pa.array(sessions)))
    with client.get_queue_receiver(partitioned_queue) as receiver:
        found = {message.session_id: message.partition_id for message in drain(receiver)}
    assert found == {session: oxbus.partition_id(session) for session in sessions}


def test_keyless_rows_are_spread(
    client: ServiceBusClient, partitioned_queue: str, drain: Callable[..., list[ServiceBusReceivedMessage]]
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
    client: ServiceBusClient, plain_queue: str, take: Callable[..., Any]
) -> None:
    """A queue that is not partitioned takes any keys and keeps row order (B-084, B-120)."""
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
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any], source: str
) -> None:
    """Anything with an Arrow stream or array can be sent, chunked and sliced data included (api: Arrow)."""
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
    """A null is like a property that was never set, a null body too (api: Arrow)."""
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
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object]
) -> None:
    """No rows is no error (api: Arrow)."""
    before = snapshot(queue_name)
    assert sum(dict(sender.send_arrow(bodies(0))).values()) == 0
    assert snapshot(queue_name) == before


def test_scheduled_rows_wait(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, take: Callable[..., Any]
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
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, take: Callable[..., Any]
) -> None:
    """A row's time to live holds (B-246)."""
    column = pa.array([timedelta(seconds=10), None, timedelta(seconds=100)], pa.duration("us"))
    sender.send_arrow(bodies(3).append_column("time_to_live", column))
    clock.advance(11)
    assert sorted(take(receiver).column("body").to_pylist()) == [b"1", b"2"]


@pytest.mark.parametrize("name", ["colour", "sequence_number", "lock_token", "Body"])
def test_unknown_column_is_refused_by_name(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], name: str
) -> None:
    """A column no outgoing message has is a ValueError that names it, and nothing is sent (api: Arrow)."""
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
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object], name: str
) -> None:
    """A key of more than 128 characters in any row is a ValueError that names the column (B-047)."""
    before = snapshot(queue_name)
    with pytest.raises(ValueError, match=f"{name}.*128"):
        sender.send_arrow(bodies(3).append_column(name, pa.array(["a", "x" * 129, "b"])))
    assert snapshot(queue_name) == before


def test_different_session_id_and_partition_key_refuse_the_rows(
    sender: ServiceBusSender, queue_name: str, snapshot: Callable[[str], object]
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
    """Data that does not speak Arrow is a TypeError that says what is needed (api: Arrow)."""
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
) -> None:
    """Keyed rows of a faulted partition are named by index; the others are stored, those can be sent later (B-074)."""
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
    namespace: Namespace, client: ServiceBusClient, partitioned_queue: str
) -> None:
    """Rows without a key are all stored while a partition is down (B-073)."""
    inject_fault(namespace, 2, "unavailable")
    with client.get_queue_sender(partitioned_queue) as sender:
        report = dict(sender.send_arrow(bodies(160)))
    assert (sum(report.values()), report.get(2, 0)) == (160, 0)


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("form", ["as received", "table", "keys only", "slice"])
def test_settling_rows(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    outcome: Outcome,
    form: str,
) -> None:
    """`settle_arrow` settles the rows it is given, however much of the received batch they still hold (B-162)."""
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
        assert counts.deferred_message_count > 0


def test_settling_stale_rows_names_them_and_settles_the_others(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, take: Callable[..., Any]
) -> None:
    """Rows whose locks are gone are named by their numbers; the others are settled (B-155, B-160)."""
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


def test_abandoned_rows_come_back_charged(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any]
) -> None:
    """Rows carry the delivery count (B-163, B-176)."""
    sender.send_arrow(bodies(5))
    for count in range(3):
        table = take(receiver)
        assert table.column("delivery_count").to_pylist() == [count] * 5
        receiver.settle_arrow(table, "abandon")


@pytest.mark.parametrize("outcome", ["", "completed", "Complete", "delete", None], ids=repr)
def test_unknown_outcome_is_refused(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any], outcome: Any
) -> None:
    """An outcome that does not exist is refused and settles nothing (B-162)."""
    sender.send_arrow(bodies(2))
    table = take(receiver)
    with pytest.raises((TypeError, ValueError)):
        receiver.settle_arrow(table, outcome)
    receiver.settle_arrow(table, "complete")


def test_settling_needs_tokens(receiver: ServiceBusReceiver) -> None:
    """A batch without lock tokens is a ValueError that names the column (B-150)."""
    with pytest.raises(ValueError, match="lock_token"):
        receiver.settle_arrow(bodies(2), "complete")


def test_receive_and_delete_rows_have_no_lock(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    take: Callable[..., Any],
) -> None:
    """In receive-and-delete mode tokens and lock ends are null and the messages are gone (B-146, B-147)."""
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
) -> None:
    """Reason and description of dead letters are columns (B-263)."""
    sender.send_arrow(bodies(2))
    receiver.dead_letter_messages(drain(receiver), reason="r", error_description="d")
    with client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead_letters:
        table = take(dead_letters)
        assert table.column("dead_letter_reason").to_pylist() == ["r", "r"]
        assert table.column("dead_letter_error_description").to_pylist() == ["d", "d"]
        dead_letters.settle_arrow(table, "complete")


def test_application_properties_of_other_types_become_text(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    """The property column holds text, so values of other types are shown as text (api: Arrow)."""
    sender.send_messages(ServiceBusMessage(b"x", application_properties={"text": "t", "number": 7}))
    (row,) = pa.table(receiver.receive_arrow(max_message_count=1, max_wait_time=0)).to_pylist()
    assert dict(row["application_properties"]) == {"text": "t", "number": "7"}


def test_state_column(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """The state column tells active messages (B-292)."""
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
    sender: ServiceBusSender, receiver: ServiceBusReceiver, take: Callable[..., Any]
) -> None:
    """A hundred thousand rows with keys come out once each with their bodies (R-01, R-04, R-06)."""
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


def test_far_times_survive(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """A scheduled time in the year 2999 is kept to the millisecond (B-232)."""
    due = datetime(2999, 1, 1, 1, 2, 3, 456_000, tzinfo=UTC)
    column = pa.array([due], pa.timestamp("us", tz="UTC"))
    sender.send_arrow(bodies(1).append_column("scheduled_enqueue_time_utc", column))
    (peeked,) = receiver.peek_messages()
    assert peeked.scheduled_enqueue_time_utc == due
