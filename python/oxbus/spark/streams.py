# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of a server, checked when they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus.spark.registration import register
from oxbus.spark.source.declared import check_sink, check_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming import DataStreamWriter
    from pyspark.sql.types import StructType

    Options = Mapping[str, str | int | bool]


def read_stream(spark: SparkSession, options: Options, schema: StructType | str | None = None) -> DataFrame:
    """Read messages as a stream.

    The same as ``spark.readStream.format("oxbus").options(...).load()`` after `register`, with `maxPartitions`
    defaulting to the number of cores: a task costs Spark about 50 ms, so more tasks than cores only add cost.
    Options and entity are checked here, also with a schema, with which Spark asks the source only in the first batch.

    Args:
        spark: The session.
        options: As in docs/guide/spark.md.
        schema: The columns to read. None: all.

    Returns:
        A streaming frame.

    Raises:
        ValueError: An option is wrong, or does not suit the entity; the text names it.
        ServiceBusError: The entity does not exist, or the broker cannot be reached.
    """
    register(spark)
    texts = _texts(options)
    check_source(texts, "stream read")
    reader = spark.readStream.format("oxbus")
    if not any(name.lower() == "maxpartitions" for name in options):
        fewest = max([int(value) for name, value in texts.items() if name.lower() == "minpartitions"], default=1)
        reader = reader.option("maxPartitions", max(fewest, spark.sparkContext.defaultParallelism))
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**texts).load()


def write_stream(df: DataFrame, options: Options) -> DataStreamWriter:
    """Return the writer of a stream, to be given a checkpoint and started.

    The same as ``df.writeStream.format("oxbus").options(...)`` after `register`. Options, columns and entity are
    checked here; Spark asks the sink only in the first batch.

    Args:
        df: A streaming frame.
        options: As in docs/guide/spark.md.

    Raises:
        ValueError: An option or a column is wrong; the text names it.
        ServiceBusError: The entity does not exist, or the broker cannot be reached.
    """
    register(df.sparkSession)
    texts = _texts(options)
    check_sink(texts, "stream write", df.schema)
    return df.writeStream.format("oxbus").options(**texts)


def write(df: DataFrame, options: Options) -> None:
    """Send the rows of a frame.

    The same as ``df.write.format("oxbus").options(...).mode("append").save()`` after `register`; without a mode, Spark
    refuses to write to a Python source.

    Args:
        df: A frame.
        options: As in docs/guide/spark.md.

    Raises:
        ValueError: An option or a column is wrong; the text names it.
        ServiceBusError: The entity does not exist, or the broker cannot be reached.
        PythonException: A row cannot be sent.
    """
    register(df.sparkSession)
    texts = _texts(options)
    check_sink(texts, "batch write", df.schema)
    writer: DataFrameWriter = df.write.format("oxbus").options(**texts)
    writer.mode("append").save()


def _texts(options: Options) -> dict[str, str]:
    """Return options as Spark passes them to a source."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
