# SPDX-License-Identifier: Apache-2.0
"""Streams through Spark itself: queue to queue, limits, triggers, progress, settling in foreachBatch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import oxbus.spark
import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as sf
from queries import SENT, forward, messages, until_done
from spark_broker import KEY
from spark_versions import AVAILABLE_NOW_IS_ONE_BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 500


def test_queue_to_queue_exactly_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The progress shows batches of at most the limit; at the end all messages are settled and no stage is left."""
    broker.fill("in", range(ROWS))
    before = {it["message_id"]: (it["body"], it["partition_key"]) for it in broker.messages("in")}
    query = until_done(forward(messages(spark, broker), broker, tmp_path))
    after = {it["message_id"]: (it["body"], it["partition_key"]) for it in broker.messages("out")}
    assert after == before
    assert broker.active("out") == ROWS
    assert broker.active("in") == 0
    assert broker.waiting_stages() == []
    if not AVAILABLE_NOW_IS_ONE_BATCH:
        progress = [it for it in query.recentProgress if it.numInputRows]
        assert [it.numInputRows for it in progress] == [200, 200, 100]
        (source,) = progress[0].sources
        latest = source.latestOffset if isinstance(source.latestOffset, dict) else json.loads(source.latestOffset)
        assert latest["activeMessages"] == ROWS
    assert KEY not in query.lastProgress.prettyJson

    broker.fill("in", range(ROWS, ROWS + 20))  # the next run continues
    until_done(forward(messages(spark, broker), broker, tmp_path))
    assert broker.numbers("out") == list(range(ROWS + 20))


@pytest.mark.parametrize("form", ["json", "variant"])
def test_types_of_properties_are_kept_from_queue_to_queue(
    spark: SparkSession, broker: Broker, tmp_path: Path, form: str
) -> None:
    """With the same form on both sides; Spark reads single properties on the way."""
    properties: dict[str, Any] = {
        "whole": 7,
        "large": -(2**62),
        "half": 0.5,
        "endless": float("inf"),
        "yes": True,
        "text": "7",
        "no": None,
        "bytes": bytes(range(256)),
        "id": UUID("12345678-1234-5678-1234-567812345678"),
        "time": datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC),
        "span": timedelta(days=1, microseconds=7),
    }
    with ServiceBusClient(broker.namespace) as client:
        message = ServiceBusMessage("x", application_properties=properties)
        client.get_queue_sender("in").send_messages(message)
        options = {"applicationPropertiesAs": form}
        until_done(forward(messages(spark, broker, **options), broker, tmp_path, **options))
        (arrived,) = client.get_queue_receiver("out").peek_messages(10)
    assert arrived.application_properties == properties
    read = spark.read.format("oxbus").options(**broker.options("out", **options)).load()
    if form == "variant":
        found = read.selectExpr(
            "variant_get(application_properties, '$.whole', 'int')",
            "variant_get(application_properties, '$.time', 'timestamp') = TIMESTAMP '2026-03-01 12:30:15.25 UTC'",
            "variant_get(application_properties, '$.text', 'string')",
        )
        assert tuple(found.first() or ()) == (7, True, "7")


def test_variants_that_spark_makes(spark: SparkSession, broker: Broker) -> None:
    """Numbers of JSON, nulls, and rows without properties; a list is an error that names the property."""
    texts = ['{"a": 1, "b": 2.5, "c": "x", "d": null, "e": true, "f": 12345678901}', None]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    rows = rows.selectExpr("text AS body", "parse_json(text) AS application_properties").where("body IS NOT NULL")
    rows = rows.unionByName(spark.sql("SELECT 'none' AS body, CAST(NULL AS VARIANT) AS application_properties"))
    options = broker.options("out", applicationPropertiesAs="variant")
    oxbus.spark.write(rows, options)
    with ServiceBusClient(broker.namespace) as client:
        found = {str(it): it.application_properties for it in client.get_queue_receiver("out").peek_messages(10)}
    wanted = {"a": 1, "b": 2.5, "c": "x", "d": None, "e": True, "f": 12345678901}
    assert found == {texts[0]: wanted, "none": None}
    bad = spark.sql("""SELECT 'x' AS body, parse_json('{"list": [1]}') AS application_properties""")
    with pytest.raises(PySparkException, match="convert lists and objects to text: `list`"):
        oxbus.spark.write(bad, options)


def test_continuous_trigger_follows_the_queue(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Messages arrive as they are sent, and the last batch is settled although none follows."""
    query = forward(messages(spark, broker), broker, tmp_path, delivery="atLeastOnce").start()
    try:
        for begin in (0, 300):
            broker.fill("in", range(begin, begin + 300))
            query.processAllAvailable()
            assert broker.numbers("out") == list(range(begin + 300))
        broker.wait_until(lambda: broker.active("in") == 0)
    finally:
        query.stop()


def test_browsing_stream_does_not_change_the_queue(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The stream reads every message once over all its runs."""
    browsing = {"receiveMode": "peek", "consumer": None, "maxMessagesPerTrigger": 200}
    options = {name: value for name, value in browsing.items() if value is not None}
    for end in (ROWS, ROWS + 30):
        broker.fill("in", range(broker.active("in"), end))
        df = spark.readStream.format("oxbus").options(**broker.options("in", **options)).load()
        until_done(forward(df, broker, tmp_path))
        assert broker.numbers("out") == list(range(end))
        assert broker.active("in") == end


def test_read_stream_registers_and_counts_cores(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The helper starts a stream with as many tasks as cores."""
    broker.fill("in", range(ROWS))
    counts = []

    def count(df: DataFrame, _batch: int) -> None:
        counts.append(df.rdd.getNumPartitions())

    df = oxbus.spark.read_stream(spark, broker.options("in") | {"targetPartitionBytes": "1k"})
    until_done(df.writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path)))
    assert counts == [spark.sparkContext.defaultParallelism]


def test_messages_of_a_batch_can_be_settled_individually(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The function that handles the batch dead-letters some; the rest is completed at the end of the batch."""
    broker.fill("in", range(ROWS))
    options = {"connectionString": broker.connection_string}

    def handle(df: DataFrame, _batch: int) -> None:
        df = df.persist()
        odd = df.where(sf.col("body").cast("string").cast("int") % 2 == 1)
        good = df.where(sf.col("body").cast("string").cast("int") % 2 == 0).select(*SENT)
        good.write.format("oxbus").options(**broker.options("out")).mode("append").save()
        counts.append(oxbus.spark.settle(odd, "dead_letter", options, reason="odd", description="not even"))
        df.unpersist()

    counts: list[int] = []
    df = messages(spark, broker)
    until_done(df.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path)))
    assert sum(counts) == ROWS // 2
    assert broker.numbers("out") == list(range(0, ROWS, 2))
    dead = broker.messages("in/$deadletterqueue")
    assert sorted(int(it["body"]) for it in dead) == list(range(1, ROWS, 2))
    assert {(it["dead_letter_reason"], it["dead_letter_error_description"]) for it in dead} == {("odd", "not even")}
    assert broker.active("in") == 0


def test_settle_reports_errors(spark: SparkSession) -> None:
    """The error comes before anything runs."""
    df = spark.sql("SELECT 'x' AS body")
    options = {"connectionString": "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey=x"}
    with pytest.raises(ValueError, match="column queue is missing"):
        oxbus.spark.settle(df, "defer", options)
    with pytest.raises(ValueError, match="outcome must be one of"):
        oxbus.spark.settle(df, "lose", options)  # type: ignore[arg-type] # an invalid outcome on purpose
    with pytest.raises(ValueError, match="for dead_letter only"):
        oxbus.spark.settle(df, "defer", options, reason="x")
    with pytest.raises(ValueError, match="connectionString is missing"):
        oxbus.spark.settle(df.selectExpr("'a' AS queue", "'b' AS reservation_id", "1 AS sequence_number"), "defer", {})


def test_errors_reach_the_driver(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A wrong option fails at load or start, a wrong column or target at start; no error shows the access key."""
    broker.fill("in", range(3))
    for wrong, text in (
        ({"colour": "red"}, "unknown option colour"),
        ({"queue": "none"}, "MessagingEntityNotFoundError"),
        ({"startingOffsets": '{"0": 1}'}, "receiveMode peek"),
    ):
        with pytest.raises(PySparkException, match=text):
            messages(spark, broker, **wrong)
    for number, (df, sink, text) in enumerate(
        [
            (messages(spark, broker), {"queue": "none"}, "MessagingEntityNotFoundError"),
            (messages(spark, broker), {"consumer": "c"}, "option consumer has no meaning for a stream write"),
            (messages(spark, broker).withColumn("partition_key", sf.lit(1)), {}, "partition_key must be string"),
        ]
    ):
        with pytest.raises(StreamingQueryException, match=text) as error:
            until_done(forward(df, broker, tmp_path / str(number), **sink))
        assert KEY not in str(error.value)
    assert broker.active("out") == 0
    assert broker.active("in") == 3
