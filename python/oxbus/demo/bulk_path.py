# SPDX-License-Identifier: Apache-2.0
"""The flights by the bulk path: Spark's tasks fill a queue in a closed directory, and drain it.

No server or driver is involved: each task writes to the partitions of its aircraft, and later reads them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import oxbus
from oxbus.demo.checks import Check
from oxbus.demo.encoded import PARTITIONS
from oxbus.demo.scenarios import ScenarioResult
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import BULK_LOAD_SCHEMA, SETTLED_SCHEMA, partition_id, partitions, receiver, sender, settler

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

QUEUE = "flights"


def run_scenario(flights: DataFrame, directory: Path) -> ScenarioResult:
    """Load all flights into a queue, read them back, and settle them.

    Args:
        flights: The flights, with `flight_id` and `tailnum`.
        directory: The directory of the namespace; it must not exist.
    """
    messages = flights.selectExpr(
        "concat('flight-', flight_id) as message_id", "tailnum as partition_key", "to_json(struct(*)) as body"
    )
    with oxbus.Namespace(directory, partitions=PARTITIONS, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
    load = sender(path=directory, queue=QUEUE, job="demo", durability="os")
    started = time.perf_counter()
    loads = [messages.mapInArrow(load, BULK_LOAD_SCHEMA).collect() for _ in range(2)]
    seconds = time.perf_counter() - started
    loaded, again = (sum(row.rows for row in rows if row.attached) for rows in loads)

    drain = receiver(
        path=directory, queue=QUEUE, columns=["partition_key", "partition_id", "message_id", "sequence_number"]
    )
    read = partitions(flights.sparkSession, path=directory, queue=QUEUE).mapInArrow(drain, drain.schema)
    found = read.withColumn("spark_partition", partition_id("partition_key", PARTITIONS)).selectExpr(
        "count(*) as rows",
        "count(distinct message_id) as ids",
        "count_if(spark_partition != partition_id) as misplaced",
    )
    (arrived,) = found.collect()
    settle = settler(path=directory, queue=QUEUE)
    settled = sum(row.settled for row in read.mapInArrow(settle, SETTLED_SCHEMA).collect())
    with oxbus.Namespace(directory, durability="os") as namespace:
        left = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(QUEUE).total_message_count or 0
    checks = [
        Check(
            "loaded in bulk by Spark's tasks, each flight is stored once although the job ran twice",
            loaded == arrived.rows == arrived.ids and again == 0,
            f"{loaded:,} stored by the first run, {again:,} by the second",
        ),
        Check(
            "the tasks found each flight in the partition that Spark computes",
            arrived.misplaced == 0,
            f"{arrived.misplaced:,} elsewhere",
        ),
        Check(
            "settled by number, none is left in the bulk-loaded queue",
            settled == loaded and left == 0,
            f"{settled:,} settled, {left:,} left",
        ),
    ]
    return ScenarioResult(checks, loaded, seconds)
