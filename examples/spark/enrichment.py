# SPDX-License-Identifier: Apache-2.0
"""Enriches flights from one queue into another, each exactly once, although the driver is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import oxbus.spark
from flights import active, arguments, broker, flights, scratch, send
from oxbus.bulk import BulkClient
from oxbus.demo.flights import COLUMNS
from oxbus.spark.local import local_session
from pyspark.sql import functions as sf

BATCHES = 8
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def enrich(connection_string: str, checkpoint: str, count: int) -> None:
    """Run the stream until the queue is empty: this is the driver."""
    with local_session("enrichment") as spark:
        options = {"connectionString": connection_string, "queue": "flights"}
        messages = oxbus.spark.read_stream(spark, options | {"maxMessagesPerTrigger": str(count // BATCHES)})
        flight = messages.withColumn("flight", sf.from_json(sf.col("body").cast("string"), SCHEMA))
        speed = sf.expr("round(60 * flight.distance / flight.air_time)")
        enriched = flight.withColumn("flight", sf.col("flight").withField("miles_per_hour", speed))
        result = enriched.select(sf.to_json("flight").alias("body"), "partition_key", "message_id")
        writer = result.writeStream.format("oxbus").options(connectionString=connection_string, queue="enriched")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


def main() -> None:
    """Fill the queue, start the driver, kill it when half is done, start it again, and count."""
    parser = arguments(__doc__)
    parser.add_argument("--driver", nargs=2, metavar=("CONNECTION", "CHECKPOINT"), help="run as the driver")
    given = parser.parse_args()
    if given.driver:
        connection_string, checkpoint = given.driver
        enrich(connection_string, checkpoint, given.flights)
        return
    with scratch() as name, broker(Path(name, "bus"), "flights", "enriched") as connection_string:
        with local_session("producer") as spark:
            send(flights(spark, Path(name), given.flights), connection_string, "flights")
        client = BulkClient(connection_string)
        command = [sys.executable, __file__, "--flights", str(given.flights)]
        command += ["--driver", connection_string, str(Path(name, "checkpoint"))]
        with subprocess.Popen(command, start_new_session=True) as driver:
            while active(client, "enriched") < given.flights // 2:
                if driver.poll() is not None:
                    sys.exit(f"the driver ended with {driver.returncode}")
                time.sleep(0.05)
            os.killpg(driver.pid, signal.SIGKILL)
        killed_at = active(client, "enriched")
        subprocess.run(command, check=True)
        left, done = active(client, "flights"), active(client, "enriched")
        with local_session("check") as spark:
            options = {"connectionString": connection_string, "queue": "enriched"}
            found = spark.read.format("oxbus").options(**options).schema("message_id string").load()
            different = found.distinct().count()
        print(
            f"killed after {killed_at:,} flights; then {done:,} are enriched, {different:,} different ones, {left} left"
        )
        if (done, different, left) != (given.flights, given.flights, 0):
            sys.exit("flights were lost or doubled")


if __name__ == "__main__":
    main()
