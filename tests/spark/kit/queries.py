# SPDX-License-Identifier: Apache-2.0
"""Streams from one queue of a broker to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_versions import AVAILABLE_NOW_IS_ONE_BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

SENT = ["body", "partition_key", "message_id", "application_properties"]
"""Columns that are copied from queue to queue."""

LIMIT_SECONDS = 240
"""Time after which a query counts as stuck; never a measure of speed."""


def messages(spark: SparkSession, broker: Broker, source: str = "oxbus", **more: object) -> DataFrame:
    """The messages of the queue `in` as a stream, 200 in a batch."""
    options = broker.options(**({"queue": "in", "maxMessagesPerTrigger": 200, "consumer": "c"} | more))
    return spark.readStream.format(source).options(**options).load()


def forward(df: DataFrame, broker: Broker, checkpoint: Path, sink: str = "oxbus", **more: object) -> Any:
    """Start a stream that writes messages to the queue `out`."""
    writer = df.select(*SENT).writeStream.format(sink).options(**broker.options(**({"queue": "out"} | more)))
    return writer.option("checkpointLocation", str(checkpoint))


def until_done(writer: Any) -> Any:
    """Run a query over the available messages; raise the error of the query."""
    empty_runs = 0
    while True:
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(LIMIT_SECONDS), "the query does not end"
        finally:
            query.stop()
        # A run without rows may have been that of an empty last batch.
        empty_runs = 0 if any(it.numInputRows for it in query.recentProgress) else empty_runs + 1
        if not AVAILABLE_NOW_IS_ONE_BATCH or empty_runs > 1:
            return query
