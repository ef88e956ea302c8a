# SPDX-License-Identifier: Apache-2.0
"""Bad input through Spark itself: the driver gets an error with a remedy, and no part of the data is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import BULK_LOAD_SCHEMA, sender
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as sf
from queries import forward, messages, until_done
from spark_broker import KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from spark_broker import Broker

ROWS = 400
WRONG_KEY = "d3Jvbmcta2V5LW9mLWEtdGVzdA=="
NOBODY = f"Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey={KEY};UseDevelopmentEmulator=true"
# A broker that is unreachable is asked again for a second, not for half a minute.
NO_PATIENCE = {"client.retryTimeout": "1s"}

EXPRESSIONS = {
    "null key": ("IF(id = 399, NULL, 'k')", "session_id", "sessions", r"(?i)session"),
    "key that is a number": ("id", "partition_key", "out", "cast it to string"),
    "key that is no text": ("IF(id = 399, X'FF', CAST('k' AS BINARY))", "partition_key", "out", "not UTF-8"),
    "partition beyond the count": ("CAST(IF(id = 399, 16, 3) AS INT)", "partition_id", "out", "partitions 0 to 15"),
    "partition below 0": ("CAST(IF(id = 399, -1, 3) AS INT)", "partition_id", "out", "partition_id has -1"),
    "partition that is a text": ("'3'", "partition_id", "out", "partition_id must be int"),
    "body that is a number": ("id", "body", "out", "body must be binary or string, not bigint"),
    "body that is a struct": ("struct(id)", "body", "out", "body must be binary or string"),
    "missing entity": ("IF(id = 399, 'none', 'out')", "queue", None, "none"),
}
"""For each: an expression that is wrong for the last of many rows or for all, its column, the target, and the text."""


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_one_bad_row_sends_none(spark: SparkSession, broker: Broker, case: str) -> None:
    """The row is in the last of four tasks; the rows staged by the others never become visible."""
    broker.create("sessions", requires_session=True)
    expression, column, queue, text = EXPRESSIONS[case]
    rows = spark.range(0, ROWS, 1, 4).withColumn("body", sf.col("id").cast("string"))
    rows = rows.withColumn(column, sf.expr(expression)).drop("id")
    writer = rows.write.format("oxbus").options(**broker.options(queue, delivery="exactlyOnce")).mode("append")
    with pytest.raises(PySparkException, match=text) as error:
        writer.save()
    assert KEY not in str(error.value)
    assert [broker.active(it) for it in ("out", "sessions")] == [0, 0]


def test_null_keys_are_no_keys(spark: SparkSession, broker: Broker) -> None:
    """If no key is needed, rows without a key are spread over the partitions."""
    rows = spark.sql("SELECT CAST(id AS STRING) AS body, CAST(NULL AS STRING) AS partition_key FROM range(400)")
    rows.write.format("oxbus").options(**broker.options("out")).mode("append").save()
    assert broker.numbers("out") == list(range(ROWS))
    assert len({it["partition_id"] for it in broker.messages("out")}) == 16


def read(spark: SparkSession, broker: Broker, connection: str, _path: Path) -> None:
    """`spark.read`."""
    spark.read.format("oxbus").options(
        **broker.options("in", connectionString=connection, **NO_PATIENCE)
    ).load().collect()


def write(spark: SparkSession, broker: Broker, connection: str, _path: Path) -> None:
    """`df.write`."""
    options = broker.options("out", connectionString=connection, **NO_PATIENCE)
    spark.sql("SELECT 'x' AS body").write.format("oxbus").options(**options).mode("append").save()


def read_stream(spark: SparkSession, broker: Broker, connection: str, path: Path) -> None:
    """`spark.readStream`."""
    until_done(forward(messages(spark, broker, connectionString=connection, **NO_PATIENCE), broker, path))


def write_stream(spark: SparkSession, broker: Broker, connection: str, path: Path) -> None:
    """`df.writeStream`."""
    until_done(forward(messages(spark, broker), broker, path, connectionString=connection, **NO_PATIENCE))


@pytest.mark.parametrize("use", [read, write, read_stream, write_stream])
def test_broker_that_cannot_be_used(
    spark: SparkSession, broker: Broker, tmp_path: Path, use: Callable[[SparkSession, Broker, str, Path], None]
) -> None:
    """An unreachable broker and a wrong key: both errors show no key, and nothing is read or sent."""
    broker.fill("in", range(10))
    wrong = broker.connection_string.replace(KEY, WRONG_KEY)
    for number, (connection, text) in enumerate([(NOBODY, "127.0.0.1:9"), (wrong, "(?i)key|token|credential")]):
        with pytest.raises((PySparkException, StreamingQueryException), match=text) as error:
            use(spark, broker, connection, tmp_path / str(number))
        assert KEY not in str(error.value)
        assert WRONG_KEY not in str(error.value)
    assert [broker.active(it) for it in ("in", "out")] == [10, 0]
    assert broker.waiting_stages() == []


@pytest.mark.parametrize("mode", ["peekLock", "peek"])
def test_checkpoint_of_another_entity(spark: SparkSession, broker: Broker, tmp_path: Path, mode: str) -> None:
    """A checkpoint of another queue, or of a recreated queue, is rejected, and no message changes."""
    broker.create("other")
    broker.fill("in", range(10))
    broker.fill("other", range(10, 20))
    options: dict[str, Any] = {"receiveMode": mode, "maxMessagesPerTrigger": 200}

    def run(queue: str) -> None:
        own = options | ({"consumer": "c"} if mode == "peekLock" else {})
        df = spark.readStream.format("oxbus").options(**broker.options(queue, **own)).load()
        until_done(forward(df, broker, tmp_path))

    run("in")
    assert broker.numbers("out") == list(range(10))
    with pytest.raises(StreamingQueryException, match="empty checkpoint"):
        run("other")
    broker.recreate("in")
    broker.fill("in", range(20, 30))
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        run("in")
    assert broker.numbers("out") == list(range(10))
    assert broker.numbers("other") == list(range(10, 20))
    assert broker.numbers("in") == list(range(20, 30))


def test_two_writers_of_one_partition(spark: SparkSession, tmp_path: Path) -> None:
    """The job fails and names the owner of the partition; a repeated run stores each row once."""
    path = tmp_path / "bus"
    with Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    rows = spark.range(0, ROWS, 1, 2).select(
        sf.col("id").cast("string").alias("body"), sf.lit("k").alias("partition_key")
    )
    load = sender(path=path, queue="q", job="contended", durability="os", wait_time=0)
    owned = oxbus.partition_id("k")
    with (
        Namespace(path, partitions_owned={owned}),
        pytest.raises(PySparkException, match="in use by the process with pid"),
    ):
        rows.mapInArrow(load, BULK_LOAD_SCHEMA).collect()
    # A task of the failed job may still run and find the partition free by now: its rows also count once.
    patient = sender(path=path, queue="q", job="contended", durability="os")
    assert sum(row.rows for row in rows.mapInArrow(patient, BULK_LOAD_SCHEMA).collect()) == ROWS
    with Namespace(path, durability="os") as namespace:
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q")
    assert counts.total_message_count == ROWS


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("id AS body, 'k' AS partition_key", "body"),
        ("'x' AS body, id AS partition_key", "partition_key"),
        ("'x' AS body, CAST(3 AS INT) AS partition_id", "partition_id"),
    ],
)
def test_load_of_a_wrong_type(spark: SparkSession, tmp_path: Path, columns: str, text: str) -> None:
    """The job fails with an error that names the column, and nothing is attached."""
    path = tmp_path / "bus"
    with Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    bad = spark.sql(f"SELECT {columns} FROM range(10)")  # noqa: S608 (no user input)
    with pytest.raises(PySparkException, match=f"`{text}`"):
        bad.mapInArrow(sender(path=path, queue="q", job="bad"), BULK_LOAD_SCHEMA).collect()
    assert [*path.glob("shard-*/attached/*")] == []
