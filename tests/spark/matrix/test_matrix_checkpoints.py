# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: a checkpoint is deleted or too old."""

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
    """A new one continues at the consumer's position in the broker, with the unfinished batch."""
    broker.fill("in", range(ROWS))

    def fail(_df: DataFrame, batch: int) -> None:
        if batch == 1:
            raise RuntimeError("a failing batch")

    # Beside the directory of the broker, which must stay.
    checkpoint = tmp_path / "checkpoint"
    df = messages(spark, broker)
    with pytest.raises(StreamingQueryException, match="a failing batch"):
        until_done(df.writeStream.foreachBatch(fail).option("checkpointLocation", str(checkpoint)))
    shutil.rmtree(checkpoint)
    left = broker.numbers("in")
    assert len(left) == ROWS - 200
    until_done(forward(messages(spark, broker), broker, checkpoint))
    assert broker.numbers("out") == left
    assert broker.active("in") == 0


def test_sink_of_a_query_whose_checkpoint_was_deleted(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With an explicit name the sink cannot distinguish old from new batches and rejects them; another name helps."""
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
    """Its messages are settled: the query reports it, and continues behind them if allowed."""
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
    # The sink has seen these batch numbers too: under its old name it would skip the new batches.
    df = messages(spark, broker, failOnDataLoss=False)
    until_done(forward(df, broker, copy, sinkId="after-the-rollback"))
    assert broker.numbers("out") == list(range(ROWS + 50))
    assert broker.active("in") == 0
