# SPDX-License-Identifier: Apache-2.0
"""Follows each aircraft through its flights, in order, with the last airport in Spark's state store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oxbus.spark
import pandas as pd
from flights import arguments, broker, flights, scratch
from oxbus.spark.local import local_session
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {"spark.sql.streaming.stateStore.providerClass": ROCKS_DB, "spark.sql.shuffle.partitions": "2"}
COLUMNS = "aircraft string, flights bigint, in_order boolean"


class Flights(StatefulProcessor):
    """Counts the flights of one aircraft, and whether they came in order."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._state = handle.getValueState("flights", "count bigint, last bigint, in_order boolean")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Add the flights of a batch."""
        count, last, in_order = self._state.get() or (0, -1, True)
        for messages in rows:
            numbers = messages["number"]
            in_order = bool(in_order and numbers.is_monotonic_increasing and numbers.iloc[0] > last)
            count, last = count + len(messages), int(numbers.iloc[-1])
        self._state.update((count, last, in_order))
        yield pd.DataFrame({"aircraft": [key[0]], "flights": [count], "in_order": [in_order]})

    def close(self) -> None:
        """Do nothing."""


def follow(spark: SparkSession, connection_string: str, directory: Path, count: int) -> dict[str, int]:
    """Send each flight to the session of its aircraft; return the flights by aircraft, as the state has them."""
    sent = flights(spark, directory, count).where("partition_key IS NOT NULL")
    sent = sent.withColumnRenamed("partition_key", "session_id").coalesce(1)
    numbered = sent.withColumn("subject", sf.monotonically_increasing_id().cast("string"))
    target = {"connectionString": connection_string, "queue": "flights"}
    oxbus.spark.write(numbered, target | {"delivery": "exactlyOnce"})

    stream = oxbus.spark.read_stream(spark, target | {"maxMessagesPerTrigger": max(1, count // 4)})
    rows = stream.select("session_id", "sequence_number", sf.col("subject").cast("bigint").alias("number"))
    followed = oxbus.spark.by_session(rows, Flights(), COLUMNS, output_mode="update")
    found: dict[str, int] = {}

    def keep(batch: DataFrame, _number: int) -> None:
        for row in batch.collect():
            if not row.in_order:
                sys.exit(f"the flights of {row.aircraft} are not in order")
            found[row.aircraft] = row.flights

    writer = followed.writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def main() -> None:
    """Run with a new server and Spark session."""
    given = arguments(__doc__).parse_args()
    with (
        scratch() as name,
        broker(Path(name, "bus"), "flights", requires_session=True) as connection_string,
        local_session("by session", settings=SETTINGS) as spark,
    ):
        found = follow(spark, connection_string, Path(name), given.flights)
    print(f"{sum(found.values()):,} flights of {len(found):,} aircraft, each in order")


if __name__ == "__main__":
    main()
