# SPDX-License-Identifier: Apache-2.0
"""Streams flights from queue to queue and enriches each exactly once, although the driver is killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import oxbus.spark
from flights import active, arguments, broker, flights, scratch, send
from oxbus.bulk import BulkClient
from oxbus.demo.flights import COLUMNS
from oxbus.spark.local import local_session
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 8
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def enrich(spark: SparkSession, connection_string: str, checkpoint: str, count: int) -> None:
    """Run the stream until the queue is empty."""
    options = {"connectionString": connection_string, "queue": "flights"}
    messages = oxbus.spark.read_stream(spark, options | {"maxMessagesPerTrigger": str(count // BATCHES)})
    flight = messages.withColumn("flight", sf.from_json(sf.col("body").cast("string"), SCHEMA))
    speed = sf.expr("round(60 * flight.distance / flight.air_time)")
    enriched = flight.withColumn("flight", sf.col("flight").withField("miles_per_hour", speed))
    result = enriched.select(sf.to_json("flight").alias("body"), "partition_key", "message_id")
    writer = result.writeStream.format("oxbus").options(connectionString=connection_string, queue="enriched")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def run_and_kill_a_driver(connection_string: str, checkpoint: str, count: int) -> int:
    """Enrich in another process and kill it half-way; return the number of enriched flights."""
    client = BulkClient(connection_string)
    command = [sys.executable, __file__, "--flights", str(count), "--driver", connection_string, checkpoint]
    with subprocess.Popen(command, start_new_session=True) as driver:
        while active(client, "enriched") < count // 2:
            if driver.poll() is not None:
                sys.exit(f"the driver ended with {driver.returncode}")
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
    return active(client, "enriched")


def enrich_despite_a_kill(spark: SparkSession, connection_string: str, directory: Path, count: int) -> str:
    """Fill the queue, kill a driver half-way, continue from its checkpoint, and check the counts."""
    send(flights(spark, directory, count), connection_string, "flights")
    checkpoint = str(directory / "checkpoint")
    killed_at = run_and_kill_a_driver(connection_string, checkpoint, count)
    enrich(spark, connection_string, checkpoint, count)
    client = BulkClient(connection_string)
    left, done = active(client, "flights"), active(client, "enriched")
    found = spark.read.format("oxbus").options(connectionString=connection_string, queue="enriched")
    bodies = found.schema("body binary, message_id string").load()
    fast = bodies.where("CAST(get_json_object(CAST(body AS STRING), '$.miles_per_hour') AS DOUBLE) > 500").count()
    different = bodies.select("message_id").distinct().count()
    if (done, different, left) != (count, count, 0):
        sys.exit(f"flights were lost or doubled: {done:,} enriched, {different:,} different ones, {left:,} left")
    return f"killed after {killed_at:,} flights; now all {done:,} are enriched once, {fast:,} were faster than 500 mph"


def main() -> None:
    """Run with a new server and Spark session, or as the driver to kill."""
    parser = arguments(__doc__)
    parser.add_argument("--driver", nargs=2, metavar=("CONNECTION", "CHECKPOINT"), help="run as the driver")
    given = parser.parse_args()
    if given.driver:
        connection_string, checkpoint = given.driver
        with local_session("enrichment") as spark:
            enrich(spark, connection_string, checkpoint, given.flights)
        return
    with (
        scratch() as name,
        broker(Path(name, "bus"), "flights", "enriched") as connection_string,
        local_session("enrichment") as spark,
    ):
        print(enrich_despite_a_kill(spark, connection_string, Path(name), given.flights))


if __name__ == "__main__":
    main()
