# SPDX-License-Identifier: Apache-2.0
"""Dead-letters flights that never left, with a reason, and analyses the dead letters with Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import oxbus.spark
from flights import arguments, broker, flights, scratch, send
from oxbus.demo.flights import COLUMNS
from oxbus.spark.local import local_session
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def as_flights(messages: DataFrame) -> DataFrame:
    """Add a column with the fields of each body."""
    return messages.withColumn("flight", sf.from_json(sf.col("body").cast("string"), SCHEMA))


def analyse(spark: SparkSession, connection_string: str, directory: Path, count: int) -> dict[str, int]:
    """Dead-letter the flights without a departure; return their count by origin."""
    messages = flights(spark, directory, count)
    send(messages, connection_string, "flights")
    connection = {"connectionString": connection_string}

    def process(batch: DataFrame, _number: int) -> None:
        never_left = as_flights(batch).where("flight.dep_time IS NULL")
        oxbus.spark.settle(never_left, "dead_letter", connection, reason="cancelled")

    stream = oxbus.spark.read_stream(spark, connection | {"queue": "flights"})
    writer = stream.writeStream.foreachBatch(process).option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    dead = spark.read.format("oxbus").options(**connection, queue="flights", subQueue="deadLetter").load()
    by_origin = as_flights(dead).where("dead_letter_reason = 'cancelled'").groupBy("flight.origin").count()
    found = {row["origin"]: row["count"] for row in by_origin.collect()}
    wanted = as_flights(messages).where("flight.dep_time IS NULL").count()
    if sum(found.values()) != wanted:
        sys.exit(f"{wanted:,} flights never left, {sum(found.values()):,} are dead-lettered")
    return found


def main() -> None:
    """Run with a new server and Spark session."""
    given = arguments(__doc__).parse_args()
    with (
        scratch() as name,
        broker(Path(name, "bus"), "flights") as connection_string,
        local_session("dead letters") as spark,
    ):
        found = analyse(spark, connection_string, Path(name), given.flights)
    for origin, count in sorted(found.items()):
        print(f"{count:,} flights from {origin} never left")


if __name__ == "__main__":
    main()
