# SPDX-License-Identifier: Apache-2.0
"""Rows of a bulk client are checked and stored as by `send_arrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    PartialSendError,
    PartitionKeyMismatchError,
    PartitionUnavailableError,
)
from oxbus.testing import heal, inject_fault

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace, ServiceBusClient
    from oxbus.bulk import BulkClient
    from oxbus.management import ServiceBusAdministrationClient


def received(client: ServiceBusClient, queue_name: str) -> list[Any]:
    """All messages of a queue."""
    with client.get_queue_receiver(queue_name) as receiver:
        messages: list[Any] = []
        while batch := receiver.receive_messages(1000, max_wait_time=0):
            messages += batch
        return messages


def test_rows_may_come_from_calls_of_the_same_thread(bulk: BulkClient, queue_name: str) -> None:
    """A reader may call the same client while its rows are sent, as in a copy from queue to queue."""
    count = 5
    bulk.send(queue_name, pa.table({"body": [b"x"] * count}))

    def moved() -> Iterator[Any]:
        while bulk.describe(queue_name)["active_messages"]:
            taken = pa.table(bulk.receive(queue_name, max_message_count=1, receive_mode="receive_and_delete"))
            yield from taken.select(["body"]).to_batches()

    schema = pa.table(bulk.peek(queue_name, 0, 0)[0]).select(["body"]).schema
    assert sum(bulk.send(queue_name, pa.RecordBatchReader.from_batches(schema, moved())).values()) == count
    assert bulk.describe(queue_name)["active_messages"] == count


def test_columns_become_messages(bulk: BulkClient, client: ServiceBusClient, queue_name: str) -> None:
    """Every column of `send_arrow` arrives; a null means no value."""
    table = pa.table(
        {
            "body": pa.array([b"one", None], pa.large_binary()),
            "message_id": pa.array(["m-1", None]),
            "subject": pa.array(["s", None], pa.string_view()),
            "partition_key": pa.array(["k", None]).dictionary_encode(),
            "content_type": pa.array(["text/plain", None]),
            "application_properties": pa.array([[("a", "1")], None], pa.map_(pa.string(), pa.string())),
            "time_to_live": pa.array([60_000, None], pa.duration("ms")),
        }
    )
    assert sum(bulk.send(queue_name, table).values()) == 2
    one, other = sorted(received(client, queue_name), key=lambda it: it.message_id != "m-1")
    assert (bytes(one), one.subject, one.partition_key, one.content_type) == (b"one", "s", "k", "text/plain")
    assert one.application_properties == {"a": "1"}
    assert one.time_to_live.total_seconds() == 60
    assert (other.subject, other.partition_key, other.application_properties) == (None, None, None)
    assert other.message_id


def test_any_arrow_object_can_be_sent(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A table, one batch, a lazy reader, and polars."""
    polars = pytest.importorskip("polars")
    table = rows(10)
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=3)))
    for data in (table, table.to_batches()[0], reader, polars.DataFrame({"body": ["x"] * 10})):
        assert sum(bulk.send(queue_name, data).values()) == 10
    assert bulk.describe(queue_name)["active_messages"] == 40


def test_empty_table_is_a_send_too(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A table without rows stores none."""
    assert bulk.send(queue_name, rows(0)) == {}
    assert bulk.send(queue_name, pa.RecordBatchReader.from_batches(rows(0).schema, iter([]))) == {}


def test_rows_larger_than_one_piece_arrive_in_order(
    bulk: BulkClient, client: ServiceBusClient, queue_name: str
) -> None:
    """Parts of a large batch, also with views, arrive unchanged; sizes cross the chunks of a stream."""
    bodies = [bytes([number % 251]) * (number * 37 % 9000) for number in range(3000)]
    for kind in (pa.binary(), pa.binary_view()):
        table = pa.table({"body": pa.array(bodies, kind), "partition_key": ["k"] * len(bodies)})
        bulk.send(queue_name, table)
        assert [bytes(message) for message in received(client, queue_name)] == bodies


def test_column_partition_id_chooses(
    bulk: BulkClient, make_queue: Callable[..., str], rows: Callable[..., Any]
) -> None:
    """A row without a key goes to the partition in its partition_id, a null to any."""
    name = make_queue("chosen")
    count = bulk.describe(name)["partitions"]
    wishes = pa.array([count - 1, 0, count - 1], pa.int16())
    expected = {0: 3} if count == 1 else {0: 1, count - 1: 2}
    assert bulk.send(name, rows(3, partition_id=wishes)) == expected
    assert sum(bulk.send(name, rows(2, partition_id=pa.array([None, None], pa.int32()))).values()) == 2


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ({"surprise": [1, 2]}, ValueError, "`surprise`"),
        ({"subject": [1, 2]}, ValueError, "column `subject` has the wrong type"),
        ({"partition_id": ["a", "b"]}, ValueError, "column `partition_id` has the wrong type"),
        ({"partition_id": pa.array([0, 99], pa.int32())}, ValueError, "row 1: partition_id is out of range.*99"),
        ({"partition_id": pa.array([0, -1], pa.int32())}, ValueError, "row 1: partition_id is out of range.*-1"),
        (
            {"partition_id": pa.array([None, 0], pa.int32()), "partition_key": [None, "k"]},
            ValueError,
            "row 1: partition_id cannot be set together with a key",
        ),
        ({"session_id": ["a", "b"], "partition_key": ["a", "c"]}, PartitionKeyMismatchError, "row 1"),
        ({"message_id": ["a", "b" * 129]}, ValueError, "row 1"),
        ({"time_to_live": pa.array([1000, -5], pa.duration("ms"))}, ValueError, "row 1: time_to_live must be greater"),
    ],
)
def test_wrong_rows_store_nothing(
    bulk: BulkClient,
    queue_name: str,
    rows: Callable[..., Any],
    columns: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    """The error is that of `send_arrow` and names the row or the column, and no row is stored."""
    with pytest.raises(error, match=text):
        bulk.send(queue_name, rows(2, **columns))
    assert bulk.describe(queue_name)["active_messages"] == 0
    assert sum(bulk.send(queue_name, rows(2)).values()) == 2, "the connection still works"


def test_wrong_row_behind_many_right_ones_stores_nothing(bulk: BulkClient, queue_name: str) -> None:
    """Rows are stored only after all were checked, however many chunks came before the wrong one."""
    ids = ["m"] * 20_000 + ["m" * 129] + ["m"] * 20_000
    with pytest.raises(ValueError, match="row 20000"):
        bulk.send(queue_name, pa.table({"body": [b"x" * 500] * len(ids), "message_id": ids}))
    assert bulk.describe(queue_name)["active_messages"] == 0


def test_source_that_fails_stores_nothing(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A reader that raises in the middle stores nothing."""
    table = rows(10)

    def batches() -> Any:
        yield table.to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        bulk.send(queue_name, pa.RecordBatchReader.from_batches(table.schema, batches()))
    assert bulk.describe(queue_name)["active_messages"] == 0


@pytest.mark.parametrize("data", [1, None, "text", [b"x"]])
def test_data_that_is_no_table_is_rejected(bulk: BulkClient, queue_name: str, data: Any) -> None:
    """A list or a number is a TypeError before anything is sent."""
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        bulk.send(queue_name, data)


def test_array_without_columns_is_refused(bulk: BulkClient, queue_name: str) -> None:
    """An array has no named columns."""
    with pytest.raises(ValueError, match="named columns"):
        bulk.send(queue_name, pa.array([b"x"]))


def test_errors_of_the_entity_are_those_of_a_sender(
    bulk: BulkClient, admin: ServiceBusAdministrationClient, queue_name: str, rows: Callable[..., Any]
) -> None:
    """Missing, disabled, too large: the same exceptions as in the broker's own process."""
    with pytest.raises(MessagingEntityNotFoundError, match="'missing' could not be found"):
        bulk.send("missing", rows(1))
    description = admin.get_queue(queue_name)
    description.status = "SendDisabled"
    admin.update_queue(description)
    with pytest.raises(MessagingEntityDisabledError):
        bulk.send(queue_name, rows(1))
    admin.create_queue("small", max_message_size_in_kilobytes=1)
    with pytest.raises(MessageSizeExceededError, match="row 1"):
        bulk.send("small", pa.table({"body": [b"x", b"x" * 2000]}))


def test_partition_that_fails_names_the_rows(bulk: BulkClient, namespace: Namespace, partitioned_queue: str) -> None:
    """Keyed rows of a partition out of service are named; the others are stored."""
    keys = [f"key {number}" for number in range(64)]
    stored = bulk.send(partitioned_queue, pa.table({"partition_key": keys}))
    inject_fault(namespace, 0, "unavailable")
    with pytest.raises(PartialSendError) as caught:
        bulk.send(partitioned_queue, pa.table({"partition_key": keys}))
    assert len(caught.value.rows) == stored[0]
    assert caught.value.partitions == {partition: rows for partition, rows in stored.items() if partition != 0}
    with pytest.raises(PartitionUnavailableError):
        bulk.send(partitioned_queue, pa.table({"partition_id": pa.array([0], pa.int32())}))
    heal(namespace, 0)
    assert bulk.send(partitioned_queue, pa.table({"partition_id": pa.array([0], pa.int32())})) == {0: 1}


def test_topic_fans_out(bulk: BulkClient, admin: ServiceBusAdministrationClient, rows: Callable[..., Any]) -> None:
    """A message sent to a topic is received from its subscriptions."""
    admin.create_topic("t")
    admin.create_subscription("t", "s")
    bulk.send("t", rows(5))
    assert bulk.describe("t/Subscriptions/s")["active_messages"] == 5
    assert len(bulk.receive("t/Subscriptions/s", max_message_count=10)) == 5
