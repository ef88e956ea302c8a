# SPDX-License-Identifier: Apache-2.0
"""The broker's disk fails during a write of Spark: the driver gets an error, and nothing is half sent or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus.testing import heal, inject_fault
from pyspark.errors import PySparkException, StreamingQueryException
from queries import forward, messages, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from spark_broker import Broker

ROWS = 500
FAULTS = ("eio-write", "eio-rename", "enospc")


@pytest.mark.parametrize("fault", FAULTS)
def test_batch_write_onto_a_disk_that_fails(spark: SparkSession, broker: Broker, fault: str) -> None:
    """Some stages were written before; none of their rows is visible, and the same write succeeds after healing."""
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        "CAST(id AS STRING) AS body", "CONCAT('key-', id % 50) AS partition_key"
    )
    options = broker.options("out", delivery="exactlyOnce", sinkId="load")
    writer = rows.write.format("oxbus").options(**options).mode("append")
    inject_fault(broker.namespace, None, fault, after=2)
    with pytest.raises(PySparkException, match="check the disk"):
        writer.save()
    assert broker.active("out") == 0
    heal(broker.namespace, None)
    writer.save()
    assert broker.numbers("out") == list(range(ROWS))


@pytest.mark.parametrize("fault", ["eio-write", "enospc"])
def test_stream_onto_a_disk_that_fails(spark: SparkSession, broker: Broker, tmp_path: Path, fault: str) -> None:
    """The query ends in its first batch, whose messages stay where they are; its next run sends each once."""
    broker.fill("in", range(ROWS))
    inject_fault(broker.namespace, None, fault)
    with pytest.raises(StreamingQueryException, match="check the disk"):
        until_done(forward(messages(spark, broker), broker, tmp_path))
    assert [broker.active(it) for it in ("in", "out")] == [ROWS, 0]
    heal(broker.namespace, None)
    until_done(forward(messages(spark, broker), broker, tmp_path))
    assert broker.numbers("out") == list(range(ROWS))
    assert broker.active("in") == 0
