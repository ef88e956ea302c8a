# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: a batch is read more than once, by another attempt of a task or by a second action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from faulty_sources import StumblingSource
from queries import SENT, forward, messages, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

ROWS = 500


@pytest.mark.parametrize("stumbling", ["source", "sink"])
def test_task_that_is_tried_again(spark: SparkSession, broker: Broker, tmp_path: Path, stumbling: str) -> None:
    """Every task fails once: during the read, or after staging all its rows. The successful attempt counts."""
    spark.dataSource.register(StumblingSource)
    broker.fill("in", range(ROWS))
    before = broker.contents("in")
    directory = {"testDirectory": str(tmp_path)}
    source = ("oxbus-stumbling", directory) if stumbling == "source" else ("oxbus", {})
    sink = ("oxbus-stumbling", directory) if stumbling == "sink" else ("oxbus", {})
    df = messages(spark, broker, source[0], **{"arrowBatchBytes": "1k"} | source[1])
    until_done(forward(df, broker, tmp_path / "checkpoint", sink[0], **sink[1]))
    assert {it.name.split("-")[1] for it in tmp_path.glob("stumbled-*")} == {"0", "1", "2"}, "in each batch"
    assert broker.contents("out") == before
    assert broker.active("in") == 0


def test_batch_with_two_actions(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each action reads the batch and gets the same rows."""
    broker.fill("in", range(ROWS))
    seen: list[list[tuple[int, bytes]]] = []

    def handle(df: DataFrame, _batch: int) -> None:
        seen.extend(sorted((row.sequence_number, bytes(row.body)) for row in df.collect()) for _ in range(2))
        both = df.select(*SENT).union(df.select(*SENT))
        both.write.format("oxbus").options(**broker.options("out")).mode("append").save()

    df = messages(spark, broker)
    until_done(df.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path)))
    assert seen[::2] == seen[1::2]
    assert sorted(int(body) for batch in seen[::2] for _, body in batch) == list(range(ROWS))
    assert broker.numbers("out") == sorted(2 * list(range(ROWS)))
    assert broker.active("in") == 0
