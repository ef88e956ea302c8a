# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: the broker restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queries import SENT, forward, messages, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 500


def test_broker_that_restarts_within_a_batch(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The batch was planned before the restart and is read after it: it has the same messages, still locked."""
    broker.fill("in", range(ROWS))
    counts = []
    taken: list[int] = []

    def handle(df: DataFrame, batch: int) -> None:
        if batch == 1:
            broker.stop()
            broker.start()
            counts.append(broker.active("in"))
            taken.extend(broker.take("in", ROWS))  # all except the batch
        sent = df.select(*SENT).write.format("oxbus")
        sent.options(**broker.options("out", delivery="exactlyOnce", sinkId=f"b{batch}")).mode("append").save()

    df = messages(spark, broker)
    until_done(df.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path)))
    assert counts == [300]
    assert len(taken) == 100
    assert sorted(broker.numbers("out") + taken) == list(range(ROWS))
    assert broker.active("in") == 0


def test_broker_that_restarts_under_a_stream_that_waits(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The stream retries until the broker is back, then continues; its last batch was settled before."""
    query = forward(messages(spark, broker), broker, tmp_path).start()
    try:
        broker.fill("in", range(ROWS))
        query.processAllAvailable()
        broker.wait_until(lambda: broker.active("in") == 0)  # the last batch is settled
        broker.stop()
        broker.start()
        assert broker.numbers("out") == list(range(ROWS))
        broker.fill("in", range(ROWS, 2 * ROWS))
        query.processAllAvailable()
    finally:
        query.stop()
    assert broker.numbers("out") == list(range(2 * ROWS))
