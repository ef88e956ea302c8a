# SPDX-License-Identifier: Apache-2.0
"""Batch reads and writes through Spark itself: the behaviour that needs Spark."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from spark_broker import KEY
from spark_versions import PYSPARK, since_4_1

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 1000


def read(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """A frame of messages."""
    return spark.read.format("oxbus").options(**options).load()


def write(df: DataFrame, options: dict[str, str]) -> None:
    """Send the rows of a frame."""
    df.write.format("oxbus").options(**options).mode("append").save()


def test_frame_is_written_to_a_queue_and_read_back(spark: SparkSession, broker: Broker) -> None:
    """All rows with all columns; every action reads the same range, even if new messages arrived in between."""
    later = "scheduled_enqueue_time_utc"
    df = spark.range(0, ROWS, 1, 3)
    df = df.select(sf.expr("CAST(id AS STRING)").alias("body"), "id")
    df = df.withColumn("partition_key", sf.expr("concat('key-', id % 100)"))
    df = df.withColumn("message_id", sf.expr("concat('m', id)"))
    df = df.withColumn("application_properties", sf.expr("map('n', CAST(id AS STRING))"))
    df = df.withColumn("time_to_live", sf.expr("INTERVAL '90' SECOND")).drop("id")
    write(df, broker.options("in", delivery="exactlyOnce"))
    found = read(spark, broker.options("in", targetPartitionBytes="8k", maxPartitions=3))
    assert found.rdd.getNumPartitions() == 3
    rows = {row.message_id: row for row in found.collect()}
    assert len(rows) == ROWS
    for number in (0, ROWS - 1):
        row = rows[f"m{number}"]
        assert (bytes(row.body), row.application_properties) == (str(number).encode(), {"n": str(number)})
        assert row.time_to_live == dt.timedelta(seconds=90)
    assert found.select("message_id").distinct().count() == ROWS
    write(spark.sql(f"SELECT 'x' AS body, TIMESTAMP '2099-01-01 00:00:00' AS {later}"), broker.options("out"))
    (message,) = broker.messages("out")
    assert message[later].isoformat() == "2099-01-01T00:00:00+00:00"


def test_rows_of_a_source_can_be_sent_unchanged(spark: SparkSession, broker: Broker) -> None:
    """A frame of messages can be sent, without the fields that the broker assigns."""
    broker.fill("in", range(ROWS))
    kept = read(spark, broker.options("in")).drop("partition_id")
    write(kept, broker.options("out", ignoreExtraColumns=True))
    assert broker.numbers("out") == list(range(ROWS))


@since_4_1
def test_filters_are_pushed_with_the_setting(spark: SparkSession, broker: Broker) -> None:
    """With Spark's setting; without it the error names the setting."""
    broker.fill("in", range(ROWS), keys=500)
    conf = "spark.sql.python.filterPushdown.enabled"
    options = broker.options("in", pushFilters=True, minPartitions=16)
    spark.conf.set(conf, "true")
    try:
        found = read(spark, options).where("partition_id IN (3, 5) AND sequence_number > 0")
        wanted = [it for it in broker.messages("in") if it["partition_id"] in {3, 5}]
        assert sorted(bytes(row.body) for row in found.collect()) == sorted(it["body"] for it in wanted)
        when = wanted[-1]["enqueued_time_utc"]
        late = read(spark, options).where(sf.col("enqueued_time_utc") > sf.lit(when))
        assert late.count() == sum(it["enqueued_time_utc"] > when for it in broker.messages("in"))
    finally:
        spark.conf.unset(conf)
    with pytest.raises(PySparkException, match=conf):
        read(spark, options).collect()


@pytest.mark.skipif(PYSPARK >= (4, 1), reason="newer versions support it")
def test_filters_that_spark_cannot_push_are_refused(spark: SparkSession, broker: Broker) -> None:
    """The option would have no effect."""
    with pytest.raises(PySparkException, match=r"pushFilters needs PySpark 4\.1"):
        read(spark, broker.options("in", pushFilters=True)).collect()


def test_no_text_of_spark_shows_the_key(
    spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans, frames and errors show no key."""
    df = read(spark, broker.options("in"))
    df.explain("extended")
    assert KEY not in capsys.readouterr().out + repr(df) + df._jdf.queryExecution().toString()
    for make in (
        lambda: read(spark, broker.options("none")).collect(),
        lambda: read(spark, broker.options("in", colour="red")),
        lambda: write(spark.sql("SELECT 'x' AS body"), broker.options("none")),
    ):
        with pytest.raises(PySparkException) as error:
            make()
        assert KEY not in str(error.value)


@pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])
def test_errors_reach_the_driver(spark: SparkSession, broker: Broker, delivery: str) -> None:
    """The error has a remedy, and nothing is sent."""
    for columns, text in [
        ("SELECT id AS body FROM range(3)", "body must be binary or string, not bigint"),
        ("SELECT 'x' AS body, id AS partition_key FROM range(3)", "cast it to string"),
        ("SELECT 'x' AS body, 16 AS partition_id", "`out` has partitions 0 to 15"),
    ]:
        with pytest.raises(PySparkException, match=text):
            write(spark.sql(columns), broker.options("out", delivery=delivery))
    assert broker.active("out") == 0


def test_overwrite_modes_are_rejected(spark: SparkSession, broker: Broker) -> None:
    """A queue supports only append."""
    with pytest.raises(PySparkException, match="append"):
        spark.sql("SELECT 'x' AS body").write.format("oxbus").options(**broker.options("out")).mode("overwrite").save()
