# SPDX-License-Identifier: Apache-2.0
"""Bulk load: tasks write their rows into the partitions of a namespace in a directory, each row exactly once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus.exceptions import InvalidOperationError, MessagingEntityNotFoundError, NamespaceInUseError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import BULK_LOAD_SCHEMA, LoadedRows, aligned, sender
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from spark_versions import since_4_1

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 2000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed namespace with a partitioned queue."""
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True)
        admin.create_queue("plain")
    return tmp_path / "bus"


def frame(spark: SparkSession) -> DataFrame:
    """Rows with a hundred keys, every tenth without one, in three partitions."""
    key = sf.when(sf.col("id") % 10 != 0, sf.concat(sf.lit("key-"), sf.col("id") % 100))
    return spark.range(0, ROWS, 1, 3).select(sf.col("id").cast("string").alias("body"), key.alias("partition_key"))


def received(path: Path) -> list[tuple[str, str | None, int | None]]:
    """Receive and delete all messages; return body, key and partition."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        return [(str(message), message.partition_key, message.partition_id) for message in receiver]


def by_arrow(df: DataFrame, load: Any) -> Any:
    """Through `mapInArrow`."""
    return df.mapInArrow(load, BULK_LOAD_SCHEMA).collect()


def by_pandas(df: DataFrame, load: Any) -> Any:
    """Through `mapInPandas`."""
    return df.mapInPandas(load, BULK_LOAD_SCHEMA).collect()


def by_rows(df: DataFrame, load: Any) -> Any:
    """Through `mapPartitions`."""
    return df.rdd.mapPartitions(load).collect()


def for_each(df: DataFrame, load: Any) -> None:
    """Through `foreachPartition`."""
    df.foreachPartition(load)


@pytest.mark.parametrize("run", [by_arrow, by_pandas, by_rows, for_each])
def test_every_row_is_loaded_once(spark: SparkSession, path: Path, run: Callable[[DataFrame, Any], Any]) -> None:
    """A second run of the job, like a retried task, stores nothing; another job stores all again."""
    load = sender(path=path, queue="q", job="monday", durability="os")
    first, second = run(frame(spark), load), run(frame(spark), load)
    if first is not None:
        assert sum(row.rows for row in first) == sum(row.rows for row in second) == ROWS
        assert {row.attached for row in first} == {True}
        assert {row.attached for row in second} == {False}
    messages = received(path)
    assert sorted(int(body) for body, _, _ in messages) == list(range(ROWS))
    keyed = [(key, partition) for _, key, partition in messages if key is not None]
    assert len(keyed) == ROWS * 9 // 10
    assert all(partition == oxbus.partition_id(key) for key, partition in keyed)
    run(frame(spark), sender(path=path, queue="q", job="tuesday", durability="os"))
    assert len(received(path)) == ROWS


@since_4_1
def test_aligned_frame_keeps_the_order_of_a_key(spark: SparkSession, path: Path) -> None:
    """Each task has one partition, and rows that are sorted in it are received in that order."""
    keyed = frame(spark).where("partition_key is not null")
    placed = aligned(keyed, "partition_key").sortWithinPartitions("partition_key", sf.col("body").cast("int"))
    rows = by_arrow(placed, sender(path=path, queue="q", job="sorted", durability="os"))
    assert all(row.task == row.partition for row in rows)
    last: dict[str | None, int] = {}
    for body, key, _ in received(path):
        assert last.get(key, -1) < int(body)
        last[key] = int(body)


def test_attempt_that_failed_half_way_is_finished_by_the_next(path: Path) -> None:
    """The second attempt attaches only the rows that the first did not."""
    load = sender(path=path, queue="q", job="killed", durability="os", wait_time=0)
    rows = [{"body": str(number), "partition_key": f"key-{number}"} for number in range(100)]
    blocked = max(oxbus.partition_id(row["partition_key"]) for row in rows)
    with Namespace(path, partitions_owned={blocked}), pytest.raises(NamespaceInUseError, match="in use"):
        list(load(rows))
    found: list[LoadedRows] = list(load(rows))
    assert [it.partition for it in found if it.attached] == [blocked]
    assert sum(it.rows for it in found) == 100
    assert sorted(int(body) for body, _, _ in received(path)) == list(range(100))


def test_task_waits_for_a_partition(path: Path) -> None:
    """Another process holds the partition for a moment."""
    script = (
        "import sys, time, oxbus\n"
        "namespace = oxbus.Namespace(sys.argv[1], partitions_owned={7})\n"
        "print('open', flush=True)\n"
        "time.sleep(0.3)\n"
        "namespace.close()\n"
    )
    load = sender(path=path, queue="q", job="waits", durability="os")
    key = next(key for key in map(str, range(1000)) if oxbus.partition_id(key) == 7)
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        assert [it.attached for it in load([{"body": "1", "partition_key": key}])] == [True]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("body bigint", "body"),
        ("body string, colour string", "colour"),
        ("body string, partition_key string, session_id string", "session"),
    ],
)
def test_rows_of_wrong_types_are_rejected(spark: SparkSession, path: Path, rows: str, text: str) -> None:
    """The job fails with an error that names the column, and nothing is stored."""
    values = [tuple(number if "bigint" in part else f"v{number}" for number, part in enumerate(rows.split(",")))]
    bad = spark.createDataFrame(values, rows)
    with pytest.raises(PySparkException, match=text):
        by_arrow(bad, sender(path=path, queue="q", job="bad", durability="os"))
    assert received(path) == []


def test_the_driver_reports_errors(path: Path, tmp_path: Path) -> None:
    """A missing queue, a queue without partitions, a job without a name, a directory that is no namespace."""
    with pytest.raises(MessagingEntityNotFoundError):
        sender(path=path, queue="none", job="j")
    with pytest.raises(InvalidOperationError, match="enable_partitioning"):
        sender(path=path, queue="plain", job="j")
    with pytest.raises(ValueError, match="job"):
        sender(path=path, queue="q", job="")
    with Namespace(path), pytest.raises(NamespaceInUseError):
        sender(path=path, queue="q", job="j", wait_time=0)
    with Namespace(path, partitions_owned={0}):
        assert sender(path=path, queue="q", job="j", wait_time=0).queue == "q"
    with pytest.raises(TypeError, match="Rows or dicts"):
        list(sender(path=path, queue="q", job="j")(["text"]))
    with pytest.raises(FileNotFoundError, match="create it"):
        sender(path=tmp_path / "missing", queue="q", job="j")
    assert not (tmp_path / "missing").exists()
