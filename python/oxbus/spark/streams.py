# SPDX-License-Identifier: Apache-2.0
"""A stream of messages with one task per core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus.spark.registration import register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


def read_stream(spark: SparkSession, options: Mapping[str, str | int | bool]) -> DataFrame:
    """Read messages as a stream.

    The same as ``spark.readStream.format("oxbus").options(...).load()`` after `register`, with `maxPartitions`
    defaulting to the number of cores: a task costs Spark about 50 ms, so more tasks than cores only add cost.

    Args:
        spark: The session.
        options: As in docs/guide/spark.md.

    Returns:
        A streaming frame.

    Raises:
        AnalysisException: An option is wrong; the text names it.
    """
    register(spark)
    reader = spark.readStream.format("oxbus")
    if not any(name.lower() == "maxpartitions" for name in options):
        fewest = max([int(value) for name, value in options.items() if name.lower() == "minpartitions"], default=1)
        reader = reader.option("maxPartitions", max(fewest, spark.sparkContext.defaultParallelism))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()
