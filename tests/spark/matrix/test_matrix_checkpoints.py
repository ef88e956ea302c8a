# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: a checkpoint is deleted, or is older than what is done."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from queries import forward, messages, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 500


def test_checkpoint_that_was_deleted(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A new one goes on where the broker says the consumer is, with the batch that was not finished."""
    broker.fill("in", range(ROWS))

    def fail(_df: DataFrame, batch: int) -> None:
        if batch == 1:
            raise RuntimeError("a batch that fails")

    df = messages(spark, broker)
    with pytest.raises(StreamingQueryException, match="a batch that fails"):
        until_done(df.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path)))
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    left = broker.numbers("in")
    assert len(left) == ROWS - 200
    until_done(forward(messages(spark, broker), broker, tmp_path))
    assert broker.numbers("out") == left
    assert broker.active("in") == 0


def test_sink_of_a_query_whose_checkpoint_was_deleted(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Under a name of its own it cannot tell old batches from new ones, so it refuses them; another name helps."""
    for begin in (0, ROWS):
        broker.fill("in", range(begin, begin + ROWS))
        query = forward(messages(spark, broker), broker, tmp_path / str(begin), sinkId="enriched")
        if begin == 0:
            until_done(query)
        else:
            with pytest.raises(StreamingQueryException, match="enriched"):
                until_done(query)
    assert broker.numbers("out") == list(range(ROWS))
    until_done(forward(messages(spark, broker), broker, tmp_path / "new", sinkId="enriched-2"))
    assert broker.numbers("out") == list(range(2 * ROWS))


def test_checkpoint_that_was_rolled_back(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Its messages are settled: it says so, and goes on behind them when it may."""
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    broker.fill("in", range(200))
    until_done(forward(messages(spark, broker), broker, checkpoint))
    shutil.copytree(checkpoint, copy)
    broker.fill("in", range(200, ROWS))
    until_done(forward(messages(spark, broker), broker, checkpoint))
    assert broker.numbers("out") == list(range(ROWS))

    broker.fill("in", range(ROWS, ROWS + 50))
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        until_done(forward(messages(spark, broker), broker, copy))
    assert broker.active("in") == 50
    # The sink too has seen these batches of the query: under its old name it would take new ones for old ones.
    df = messages(spark, broker, failOnDataLoss=False)
    until_done(forward(df, broker, copy, sinkId="after-the-rollback"))
    assert broker.numbers("out") == list(range(ROWS + 50))
    assert broker.active("in") == 0
