# SPDX-License-Identifier: Apache-2.0
"""A driver on a cluster of two executors: a batch on both, a speculative copy of a task, a lost executor.

The arguments and the output are JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_sources import LosingSource, OvertakenSource
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

SENT = ["body", "partition_key", "message_id", "application_properties"]


def count_everywhere(df: DataFrame, directory: str) -> int:
    """Count the rows of a frame; each task, also an overtaken one, writes a file with the address of its host."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        Path(directory, "host-" + os.environ["SPARK_LOCAL_IP"]).touch()
        yield pa.record_batch({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})

    return sum(row.rows for row in df.mapInArrow(count, "rows bigint").collect())


def main() -> None:
    """Run the jobs one after the other."""
    given = json.loads(sys.argv[1])
    builder = (
        SparkSession.builder.master(given["master"])
        .appName("oxbus cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.locality.wait", "0s")
        # No job starts before both executors are registered.
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "180s")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "1s")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.pyspark.python", sys.executable)
    )
    spark = builder.getOrCreate()
    key = sf.concat(sf.lit("key-"), sf.col("id") % 100)
    numbers = spark.range(0, given["rows"], 1, 4)
    rows = numbers.select(sf.col("id").cast("string").alias("body"), key.alias("partition_key"))
    write = rows.write.format("oxbus").options(**given["in"]).option("delivery", "exactlyOnce")
    write.mode("append").save()
    many = {"minPartitions": "8", "arrowBatchBytes": "1k"}
    seen = count_everywhere(spark.read.format("oxbus").options(**given["in"] | many).load(), given["directory"])
    for source in (OvertakenSource, LosingSource):
        spark.dataSource.register(source)
        own = given["in"] | many | given["out_of"][source.name()]
        messages = spark.readStream.format(source.name()).options(**own).load()
        writer = messages.select(*SENT).writeStream.format("oxbus").options(**given["to"][source.name()])
        writer = writer.option("checkpointLocation", given["checkpoint"] + source.name())
        writer.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"rows": seen}))  # noqa: T201 (for the test that started it)
    spark.stop()


if __name__ == "__main__":
    main()
