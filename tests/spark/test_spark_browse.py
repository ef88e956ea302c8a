# SPDX-License-Identifier: Apache-2.0
"""A batch read browses the available messages; here without Spark, in `test_spark_frames` with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import oxbus
import pyarrow as pa
import pytest
from driven import batch_tasks, browse, rows_of, schema_of
from pyspark.sql import datasource as spark
from pyspark.sql.types import BinaryType, LongType, StringType
from spark_versions import since_4_1

if TYPE_CHECKING:
    from spark_broker import Broker

ROWS = 1000


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """The bodies as numbers, sorted."""
    return sorted(int(row["body"]) for row in rows)


def test_all_messages_are_read_and_stay(broker: Broker) -> None:
    """Every column has the value of the message, and a second read returns the same."""
    broker.fill("in", range(ROWS))
    reader, tasks, schema = batch_tasks(broker.options("in"))
    rows = rows_of(reader, tasks, schema)
    assert numbers(rows) == numbers(rows_of(reader, tasks, schema)) == list(range(ROWS))
    assert all(row["partition_id"] == oxbus.partition_id(row["partition_key"]) for row in rows)
    assert all(row["sequence_number"] >> 48 == row["partition_id"] for row in rows)
    same = {(row["queue"], row["state"], row["delivery_count"], row["reservation_id"]) for row in rows}
    assert same == {("in", "active", 0, None)}
    assert all(row["enqueued_time_utc"] is not None and row["message_id"] for row in rows)
    assert broker.active("in") == ROWS


def test_properties_are_read_as_they_were_sent(broker: Broker) -> None:
    """Texts, properties and the time to live; null if a message has none."""
    table = pa.table(
        {
            "body": pa.array([b"\x00\xff", None], pa.binary()),
            "subject": ["s", None],
            "application_properties": pa.array([[("a", "1"), ("b", None)], None], pa.map_(pa.string(), pa.string())),
            "time_to_live": pa.array([90_000_000, None], pa.duration("us")),
            "partition_key": ["k", "k"],
        }
    )
    broker.client.send("in", table)
    first, second = sorted(browse(broker.options("in")), key=lambda row: row["sequence_number"])
    assert (first["body"], first["subject"]) == (b"\x00\xff", "s")
    assert dict(first["application_properties"]) == {"a": "1", "b": None}
    assert first["time_to_live"].total_seconds() == 90
    assert (second["body"], second["subject"], second["time_to_live"]) == (None, None, None)
    assert not second["application_properties"]


def test_properties_can_be_read_as_json(broker: Broker) -> None:
    """Properties read as JSON keep their types."""
    with oxbus.ServiceBusClient(broker.namespace) as client, client.get_queue_sender("in") as sender:
        properties: Any = {"text": "1", "whole": 1, "truth": True, "real": 1.5, "nothing": None}
        sender.send_messages(oxbus.ServiceBusMessage("x", application_properties=properties))
    (row,) = browse(broker.options("in", applicationPropertiesAs="json"))
    assert json.loads(row["application_properties"]) == properties
    (row,) = browse(broker.options("in"))
    assert dict(row["application_properties"])["whole"] == "1"


def test_columns_can_be_chosen(broker: Broker) -> None:
    """In any order; the body is omitted if it is not selected."""
    broker.fill("in", range(10))
    chosen = schema_of(queue=StringType(), sequence_number=LongType())
    rows = browse(broker.options("in"), chosen)
    assert {(*row, row["queue"]) for row in rows} == {("queue", "sequence_number", "in")}
    assert browse(broker.options("in"), schema_of(queue=StringType())) == [{"queue": "in"}] * 10
    assert all("body" not in row for row in browse(broker.options("in", includeBody="false")))
    assert len(browse(broker.options("in", includeBody="false"))) == 10


@pytest.mark.parametrize(
    ("column", "text"), [("colour", "unknown column colour"), ("partition_id", "partition_id is int, not binary")]
)
def test_unknown_columns_are_rejected(broker: Broker, column: str, text: str) -> None:
    """The error names the column."""
    with pytest.raises(ValueError, match=text):
        browse(broker.options("in"), schema_of(**{column: BinaryType()}))


def test_empty_queue_has_no_rows(broker: Broker) -> None:
    """Spark creates one task for it, which reads nothing."""
    reader, tasks, schema = batch_tasks(broker.options("in"))
    assert tasks == []
    assert rows_of(reader, [spark.InputPartition(None)], schema) == []


def test_range_follows_the_options(broker: Broker) -> None:
    """From a number, to a number, in some partitions; from and to a time."""
    broker.fill("in", range(ROWS))
    messages = broker.messages("in")
    middle = messages[len(messages) // 2]
    partition, number = middle["partition_id"], middle["sequence_number"]
    others = [it for it in messages if it["partition_id"] != partition]
    same = [it for it in messages if it["partition_id"] == partition]

    later = browse(broker.options("in", startingOffsets=f'{{"{partition}": {number}}}'))
    assert numbers(later) == numbers([*others, *(it for it in same if it["sequence_number"] >= number)])
    ending = broker.options("in", endingOffsets=f'{{"{partition}": {number}}}', partitionFilter=partition)
    assert numbers(browse(ending)) == numbers([it for it in same if it["sequence_number"] < number])
    assert browse(broker.options("in", startingOffsets="latest")) == []

    moment = middle["enqueued_time_utc"]
    wanted = [it for it in messages if it["enqueued_time_utc"] >= moment]
    assert numbers(browse(broker.options("in", startingTimestamp=moment.isoformat()))) == numbers(wanted)
    wanted = [it for it in messages if it["enqueued_time_utc"] < moment]
    assert numbers(browse(broker.options("in", endingTimestamp=moment.isoformat()))) == numbers(wanted)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": '{"16": 1}'}, "partition 16; `in` has 0 to 15"),
        ({"startingOffsets": f'{{"2": {3 << 48 | 1}}}'}, "number of partition 3"),
        ({"partitionFilter": "3,99"}, "partitionFilter names partition 99"),
    ],
)
def test_invalid_range_is_rejected(broker: Broker, options: dict[str, str], text: str) -> None:
    """The error names the option and the valid range."""
    with pytest.raises(ValueError, match=text):
        browse(broker.options("in", **options))


def test_missing_messages_are_an_error_on_request(broker: Broker) -> None:
    """With failOnDataLoss the read fails; without it the read starts behind them."""
    broker.fill("in", range(50), keys=1)
    first = broker.messages("in")[0]
    begin = f'{{"{first["partition_id"]}": {first["sequence_number"]}}}'
    taken = broker.take("in", 5)
    assert taken == [0, 1, 2, 3, 4]
    assert numbers(browse(broker.options("in", startingOffsets=begin))) == list(range(5, 50))
    with pytest.raises(ValueError, match="failOnDataLoss"):
        browse(broker.options("in", startingOffsets=begin, failOnDataLoss=True))


def test_partitions_are_shared_out_by_bytes(broker: Broker) -> None:
    """The number of tasks follows the bytes, within the bounds of the options; pages have the requested size."""
    broker.fill("in", range(ROWS), keys=500)
    for options, tasks in [
        ({}, 1),
        ({"targetPartitionBytes": "4k", "maxPartitions": "5"}, 5),
        ({"minPartitions": "24", "maxPartitions": "24", "arrowBatchBytes": "1k"}, 24),
    ]:
        found = batch_tasks(broker.options("in", **options))
        assert len(found[1]) == tasks
        assert numbers(rows_of(*found)) == list(range(ROWS))


@since_4_1
def test_filters_reduce_reading(broker: Broker) -> None:
    """Filters on numbers, partitions and times reach the broker; Spark evaluates all of them again."""
    broker.fill("in", range(ROWS), keys=500)
    rows = browse(broker.options("in"))
    number = sorted(row["sequence_number"] for row in rows)[ROWS // 2]
    when = sorted(row["enqueued_time_utc"] for row in rows)[ROWS // 2]
    options = broker.options("in", pushFilters=True)
    column, partition, moment = ("sequence_number",), ("partition_id",), ("enqueued_time_utc",)
    for filters, wanted in [
        ([spark.GreaterThanOrEqual(column, number)], [row for row in rows if row["sequence_number"] >= number]),
        ([spark.GreaterThan(column, number)], [row for row in rows if row["sequence_number"] > number]),
        ([spark.LessThan(column, number)], [row for row in rows if row["sequence_number"] < number]),
        ([spark.EqualTo(column, number)], [row for row in rows if row["sequence_number"] == number]),
        ([spark.In(partition, (3, 5))], [row for row in rows if row["partition_id"] in {3, 5}]),
        ([spark.EqualTo(partition, 3), spark.EqualTo(partition, 5)], []),
        ([spark.GreaterThan(moment, when)], [row for row in rows if row["enqueued_time_utc"] > when]),
        ([spark.IsNotNull(column), spark.EqualTo(("body",), b"1")], rows),
    ]:
        assert numbers(browse(options, None, filters)) == numbers(wanted)


def test_topic_subscriptions_and_dead_letters_are_read(broker: Broker) -> None:
    """A subscription is read by its topic, a dead-letter queue by its queue."""
    broker.make_topic("t", "s")
    broker.client.send("t", pa.table({"body": ["1", "2"], "partition_key": ["a", "b"]}))
    rows = browse(broker.options(topic="t", subscription="s"))
    assert numbers(rows) == [1, 2]
    assert {row["queue"] for row in rows} == {"t/Subscriptions/s"}
    broker.fill("in", range(5))
    broker.dead_letter("in", 3, "too old")
    dead = browse(broker.options("in", subQueue="deadLetter"))
    assert {row["dead_letter_reason"] for row in dead} == {"too old"}
    assert len(dead) == 3
    assert len(browse(broker.options("in"))) == 2


def test_queue_without_partitions_is_read(broker: Broker) -> None:
    """Its only partition has the number 0."""
    broker.create("plain", enable_partitioning=False)
    broker.client.send("plain", pa.table({"body": [str(it) for it in range(100)]}))
    assert numbers(browse(broker.options("plain", arrowBatchBytes="1k"))) == list(range(100))
