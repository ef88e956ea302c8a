# SPDX-License-Identifier: Apache-2.0
"""Bulk drain: tasks read the ready messages of the partitions of a directory, and settle them by number afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus._oxbus import _Drain
from oxbus.exceptions import MessagingEntityNotFoundError, NamespaceInUseError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import SETTLED_SCHEMA, partitions, receiver, settler
from oxbus.testing import ManualClock
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MESSAGES = 500


def message(number: int) -> ServiceBusMessage:
    """The message with this number."""
    return ServiceBusMessage(
        f"body {number}",
        partition_key=f"key-{number % 50}",
        message_id=str(number),
        application_properties={"number": number},
        time_to_live=timedelta(hours=1),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed namespace with messages in a partitioned queue, some of them not ready."""
    with Namespace(tmp_path / "bus", durability="os") as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True)
        admin.create_queue("plain")
        sender = client.get_queue_sender("q")
        for number in range(MESSAGES):
            sender.send_messages(message(number))
        held = client.get_queue_receiver("q", max_wait_time=0).receive_messages(2)
        receiver = client.get_queue_receiver("q")
        receiver.defer_message(held[0])
        receiver.dead_letter_message(held[1], reason="tested")
        sender.schedule_messages(message(MESSAGES), ManualClock().now() + timedelta(days=3650))
        client.get_queue_sender("plain").send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    return tmp_path / "bus"


def received_bodies(path: Path, queue: str = "q", **options: Any) -> list[str]:
    """The bodies of the messages that a receiver gets."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        return [str(it) for it in client.get_queue_receiver(queue, max_wait_time=0, **options).receive_messages(10_000)]


def test_all_ready_messages_are_read_and_settled_once(spark: SparkSession, path: Path) -> None:
    """Reading changes nothing, so it can be repeated; settling a second time settles nothing."""
    drain = receiver(path=path, queue="q")
    for _ in range(2):
        rows = partitions(spark, path=path, queue="q").mapInArrow(drain, drain.schema).collect()
        assert len(rows) == len({row.message_id for row in rows}) == MESSAGES - 2
        for row in rows:
            number = int(row.message_id)
            assert bytes(row.body) == f"body {number}".encode()
            assert row.partition_key == f"key-{number % 50}"
            assert row.partition_id == oxbus.partition_id(row.partition_key) == row.sequence_number >> 48
            assert row.application_properties == {"number": str(number)}
            assert row.time_to_live == timedelta(hours=1)
            assert (row.delivery_count, row.state, row.queue) == (0, "active", "q")
    read = spark.createDataFrame(
        [(row.sequence_number, int(row.message_id)) for row in rows], "sequence_number long, id int"
    )
    done = read.where("id % 2 = 0").mapInArrow(settler(path=path, queue="q"), SETTLED_SCHEMA)
    dead = read.where("id % 10 = 1").mapInPandas(
        settler(path=path, queue="q", outcome="dead_letter", reason="odd", description="ends in 1"), SETTLED_SCHEMA
    )
    even = sum(int(row.message_id) % 2 == 0 for row in rows)
    ones = sum(int(row.message_id) % 10 == 1 for row in rows)
    for expected in (even, 0):
        assert done.agg(sf.sum("settled")).first()[0] == expected
    for expected in (ones, 0):
        assert dead.agg(sf.sum("settled")).first()[0] == expected
    others = {f"body {row.message_id}" for row in rows if int(row.message_id) % 2 and int(row.message_id) % 10 != 1}
    assert set(received_bodies(path)) == others
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        letters = client.get_queue_receiver("q", sub_queue="deadletter", max_wait_time=0).receive_messages(1000)
        reasons = [str(letter.dead_letter_reason) for letter in letters]
    assert sorted(reasons) == sorted(["tested", *["odd"] * ones])


def test_rows_in_and_out(spark: SparkSession, path: Path) -> None:
    """`mapPartitions` over partition ids returns rows, `foreachPartition` settles them."""
    drain = receiver(path=path, queue="q", columns=["sequence_number", "body"])
    rows = spark.sparkContext.parallelize(range(16), 4).mapPartitions(drain)
    found = rows.collect()
    assert len(found) == MESSAGES - 2
    assert found[0].asDict().keys() == {"sequence_number", "body"}
    spark.createDataFrame([(row.sequence_number,) for row in found], "sequence_number long").foreachPartition(
        settler(path=path, queue="q", outcome="defer")
    )
    assert received_bodies(path) == []
    assert rows.count() == 0
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        fetched = []
        for partition in range(16):
            numbers = [row.sequence_number for row in found if row.sequence_number >> 48 == partition]
            fetched += client.get_queue_receiver("q").receive_deferred_messages(numbers)
        assert {str(it) for it in fetched} == {bytes(row.body).decode() for row in found}


def test_tasks_share_the_partitions(spark: SparkSession, path: Path) -> None:
    """Two tasks for each core, or the requested number, but never more than there are partitions."""
    for tasks, expected in ((None, 4), (3, 3), (99, 16)):
        shared = partitions(spark, path=path, queue="q", tasks=tasks)
        assert shared.rdd.getNumPartitions() == expected
        assert sorted(row.partition_id for row in shared.collect()) == list(range(16))
    with pytest.raises(ValueError, match="tasks must be at least 1; got 0"):
        partitions(spark, path=path, queue="q", tasks=0)


def test_dead_letters_and_queues_without_partitions(spark: SparkSession, path: Path) -> None:
    """Both have paths; a queue without partitioning has one partition."""
    letters = receiver(path=path, queue="q/$DeadLetterQueue")
    (letter,) = partitions(spark, path=path, queue="q/$DeadLetterQueue").mapInArrow(letters, letters.schema).collect()
    assert letter.dead_letter_reason == "tested"
    assert letter.queue == "q/$DeadLetterQueue"
    number = spark.createDataFrame([(letter.sequence_number,)], "sequence_number long")
    settle = settler(path=path, queue="q/$deadletterqueue")
    assert number.mapInArrow(settle, SETTLED_SCHEMA).first().settled == 1
    assert received_bodies(path, sub_queue="deadletter") == []
    plain = receiver(path=path, queue="plain", columns=["body", "sequence_number", "partition_id"])
    ids = partitions(spark, path=path, queue="plain")
    assert ids.count() == 1
    rows = ids.mapInPandas(plain, plain.schema).collect()
    assert [bytes(row.body) for row in rows] == [b"a", b"b"]
    numbers = spark.createDataFrame([(row.sequence_number,) for row in rows], "sequence_number long")
    settled = numbers.mapInArrow(settler(path=path, queue="plain"), SETTLED_SCHEMA).collect()
    assert sum(row.settled for row in settled) == 2


def test_a_locked_message_is_not_settled(path: Path) -> None:
    """A receiver locks the message after it was read and keeps it."""
    numbers = [row.sequence_number for row in receiver(path=path, queue="q", columns=["sequence_number"])(range(16))]
    with Namespace(path, durability="os") as namespace:
        client = ServiceBusClient(namespace)
        taken = client.get_queue_receiver("q", max_wait_time=0).receive_messages(10)
        settled = 0
        for partition in range(16):
            import pyarrow as pa  # noqa: PLC0415 -- an extra

            mine = pa.array([number for number in numbers if number >> 48 == partition], pa.int64())
            settled += _Drain(namespace, "q", None, partition).settle(mine, "complete")
        assert settled == MESSAGES - 2 - 10
        client.get_queue_receiver("q").complete_messages(taken)
    assert received_bodies(path) == []


def test_errors_are_reported(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """The error comes from the driver if possible, else from the task; nothing is settled."""
    with pytest.raises(MessagingEntityNotFoundError):
        receiver(path=path, queue="none")
    with pytest.raises(FileNotFoundError, match="create it"):
        settler(path=tmp_path / "missing", queue="q")
    with pytest.raises(ValueError, match="colour"):
        receiver(path=path, queue="q", columns=["body", "colour"])
    with pytest.raises(ValueError, match="outcome"):
        settler(path=path, queue="q", outcome="abandon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dead_letter only"):
        settler(path=path, queue="q", reason="why")
    with pytest.raises(ValueError, match="no such partition"):
        list(receiver(path=path, queue="q")([16]))
    with pytest.raises(ValueError, match="sequence_number is missing"):
        list(settler(path=path, queue="q")([{"id": 1}]))
    with pytest.raises(PySparkException, match="sequence_number has a null"):
        spark.sql("select cast(null as long) as sequence_number").mapInArrow(
            settler(path=path, queue="q"), SETTLED_SCHEMA
        ).collect()
    with Namespace(path), pytest.raises(NamespaceInUseError, match="pid"):
        list(receiver(path=path, queue="q", wait_time=0)([3]))
    assert len(received_bodies(path)) == MESSAGES - 2
