# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: lost locks and their causes."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from faulty_sources import StalledSource
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from queries import LIMIT_SECONDS, SENT, forward, messages, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 500


def test_driver_that_stalls_past_the_lock(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Its tasks find the lock lost, and the query ends; the next run locks the messages that are still there."""
    spark.dataSource.register(StalledSource)
    broker.fill("in", range(ROWS))
    options = {"lockDuration": "3s"}
    df = messages(spark, broker, "oxbus-stalled", testDirectory=tmp_path, **options)
    query = forward(df, broker, tmp_path / "checkpoint").start()
    stalled = tmp_path / "stalled"
    broker.wait_until(stalled.exists, LIMIT_SECONDS)
    broker.wait_for_expiry("in")
    taken = broker.take("in", 40)
    assert len(taken) == 40
    os.kill(int(stalled.read_text()), signal.SIGCONT)
    with pytest.raises(StreamingQueryException, match="MessageLockLost"):
        query.awaitTermination(LIMIT_SECONDS)
    until_done(forward(messages(spark, broker, **options), broker, tmp_path / "checkpoint"))
    assert sorted(broker.numbers("out") + taken) == list(range(ROWS))
    assert broker.active("in") == 0


def test_receiver_that_competes(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each message goes either to the stream or to the receiver."""
    broker.fill("in", range(ROWS))
    query = forward(messages(spark, broker), broker, tmp_path).start()
    taken: list[int] = []
    try:
        for begin in range(ROWS, 3 * ROWS, 100):
            taken += broker.take("in", 30)
            broker.fill("in", range(begin, begin + 100))
            taken += broker.take("in", 30)
        query.processAllAvailable()
        broker.wait_until(lambda: broker.active("in") == 0)
    finally:
        query.stop()
    assert taken
    assert sorted(broker.numbers("out") + taken) == list(range(3 * ROWS))


def test_second_query_with_the_same_consumer(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The older query is fenced and reports it; the newer one continues at its position."""
    broker.fill("in", range(ROWS))
    older = forward(messages(spark, broker), broker, tmp_path / "older").start()
    newer = None
    try:
        older.processAllAvailable()
        broker.wait_until(lambda: broker.active("in") == 0)
        newer = forward(messages(spark, broker), broker, tmp_path / "newer").start()
        with pytest.raises(StreamingQueryException, match="option consumer"):
            older.awaitTermination(LIMIT_SECONDS)
        broker.fill("in", range(ROWS, 2 * ROWS))
        newer.processAllAvailable()
    finally:
        older.stop()
        if newer is not None:
            newer.stop()
    assert broker.numbers("out") == list(range(2 * ROWS))


def test_second_query_while_the_first_has_a_batch(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The newer query takes the batch over; nothing is lost, and only that batch may also reach the older sink."""
    broker.create("older")
    broker.fill("in", range(ROWS))
    begun, go_on = threading.Event(), threading.Event()

    def handle(df: DataFrame, batch: int) -> None:
        if batch == 1:
            begun.set()
            assert go_on.wait(LIMIT_SECONDS)
        sent = df.select(*SENT).write.format("oxbus").options(**broker.options("older")).mode("append")
        sent.save()

    df = messages(spark, broker)
    older = df.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path / "older")).start()
    try:
        assert begun.wait(LIMIT_SECONDS)
        first = broker.numbers("older")
        until_done(forward(messages(spark, broker), broker, tmp_path / "newer"))
        go_on.set()
        with pytest.raises(StreamingQueryException, match=r"option consumer|acquired the consumer"):
            older.awaitTermination(LIMIT_SECONDS)
    finally:
        go_on.set()
        older.stop()
    assert len(first) == 200
    assert sorted(first + broker.numbers("out")) == list(range(ROWS)), "each once, except the batch in progress"
    late = set(broker.numbers("older")) - set(first)
    assert len(late) <= 200
    assert broker.active("in") == 0


def test_message_that_fails_every_task(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Starts halve the batch until the message stands alone; it is dead-lettered, and all others are processed."""
    broker.create("hospital", max_delivery_count=2)
    broker.fill("hospital", range(20))
    poison = "IF(CAST(CAST(body AS STRING) AS INT) = 13, raise_error('poison'), body)"

    def run() -> None:
        repeated: dict[str, Any] = {"maxBatchFailures": 2, "onRepeatedFailure": "bisect"}
        df = messages(spark, broker, queue="hospital", maxMessagesPerTrigger=4, **repeated)
        until_done(forward(df.withColumn("body", sf.expr(poison)), broker, tmp_path))

    failures = 0
    while failures < 10:
        try:
            run()
            break
        except StreamingQueryException as error:
            assert "poison" in str(error)  # noqa: PT017 (any of the runs may fail)
            failures += 1
    assert 2 <= failures < 10
    dead = broker.numbers("hospital/$deadletterqueue")
    assert dead == [13]
    assert sorted(broker.numbers("out") + dead) == list(range(20))
    assert broker.active("hospital") == 0
