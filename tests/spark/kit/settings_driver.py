# SPDX-License-Identifier: Apache-2.0
"""A separate driver under `PYTHON_SETTINGS`: a bulk load and a bulk drain. Its arguments and output are JSON."""

from __future__ import annotations

import json
import sys

from oxbus import Namespace
from oxbus.spark import BULK_LOAD_SCHEMA, LoadedRows, partitions, receiver, sender
from oxbus.spark.local import PYTHON_SETTINGS, local_session
from pyspark.sql import functions as sf


def main() -> None:
    """Load rows, drain them with Arrow and as rows, and print them."""
    given = json.loads(sys.argv[1])
    path, queue, rows = given["path"], given["queue"], given["rows"]
    with local_session("oxbus settings", settings=PYTHON_SETTINGS) as spark:
        body = sf.rpad(sf.concat(sf.lit("body "), sf.col("id").cast("string")), given["body_bytes"], ".")
        key = sf.concat(sf.lit("key-"), sf.col("id") % 100)
        frame = spark.range(0, rows, 1, 2).select(body.alias("body"), key.alias("partition_key"))
        load = sender(path=path, queue=queue, job="settings")
        loaded = frame.mapInArrow(load, BULK_LOAD_SCHEMA).agg(sf.sum("rows")).first()[0]
        again = [LoadedRows(**row.asDict()) for row in frame.rdd.mapPartitions(load).map(_shown).collect()]
        Namespace(path).close()
        drain = receiver(path=path, queue=queue, columns=["body", "partition_key"])
        ids = partitions(spark, path=path, queue=queue)
        drained = ids.mapInArrow(drain, drain.schema).collect()
        by_row = ids.rdd.mapPartitions(drain).map(lambda row: bytes(row.body).decode()).collect()
        answer = {
            "loaded": loaded,
            "attached again": sum(it.attached for it in again),
            "drained": [[bytes(row.body).decode(), row.partition_key] for row in drained],
            "by row": by_row,
            "unix socket": isinstance(spark.sparkContext._accumulatorServer.server_address, str),
            "settings": {name: spark.conf.get(name) for name in PYTHON_SETTINGS},
        }
    sys.stdout.write(f"{json.dumps(answer)}\n")


def _shown(loaded: LoadedRows) -> object:
    from pyspark.sql import Row  # noqa: PLC0415 -- in the worker

    return Row(task=loaded.task, partition=loaded.partition, rows=loaded.rows, attached=loaded.attached)


if __name__ == "__main__":
    main()
