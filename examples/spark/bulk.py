# SPDX-License-Identifier: Apache-2.0
"""Bulk-loads flights by aircraft: each task writes to the partitions of a directory, without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flights import arguments, flights, scratch
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import partition_id, partitions, receiver, sender
from oxbus.spark.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_by_aircraft(spark: SparkSession, directory: Path, count: int) -> dict[str, int]:
    """Load the flights and check the partition of each row that tasks read back.

    Returns:
        The numbers of flights, of aircraft, and of flights outside the partition of their aircraft.
    """
    bus = directory / "bus"
    with Namespace(bus, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("flights", enable_partitioning=True)
    load = sender(path=bus, queue="flights", job="flights-2013", durability="os")
    # One task has all rows of an aircraft, in the order of the file.
    by_aircraft = flights(spark, directory, count).repartition("partition_key")
    for _ in range(2):  # the second run acts as a retried job and stores nothing
        by_aircraft.rdd.mapPartitions(load).count()
    read = receiver(path=bus, queue="flights", columns=["partition_key", "partition_id"])
    found = partitions(spark, path=bus, queue="flights").mapInArrow(read, read.schema)
    placed = found.withColumn("belongs", partition_id("partition_key"))
    row = placed.selectExpr(
        "count(*) as flights",
        "count(distinct partition_key) as aircraft",
        "count_if(belongs != partition_id) as misplaced",
    ).first()
    return row.asDict() if row is not None else {}


def main() -> None:
    """Run with a new Spark session."""
    given = arguments(__doc__).parse_args()
    with scratch() as name, local_session("bulk load") as spark:
        found = load_by_aircraft(spark, Path(name), given.flights)
    print(
        f"{found['flights']:,} flights of {found['aircraft']:,} aircraft, {found['misplaced']:,} in a wrong partition"
    )
    if found["flights"] != given.flights or found["misplaced"]:
        sys.exit("messages were lost, doubled or misplaced")


if __name__ == "__main__":
    main()
