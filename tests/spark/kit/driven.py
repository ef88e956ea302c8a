# SPDX-License-Identifier: Apache-2.0
"""Drives the data source like Spark, without Spark: with Spark's pickling and Spark's checks of batches."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from oxbus.spark.source.data_source import OxbusDataSource
from oxbus.spark.source.schemas import arrow_schema
from pyspark.sql.types import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def copied(value: Any) -> Any:
    """The value after a transfer to another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 (a value of the test)


def schema_of(**columns: Any) -> StructType:
    """A schema of these types."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def batch_tasks(options: Mapping[str, str], schema: StructType | None = None, filters: list[Any] | None = None) -> Any:
    """A reader of `spark.read`, and its tasks."""
    source = copied(OxbusDataSource(dict(options)))
    schema = schema or source.schema()
    reader = source.reader(schema)
    if filters is not None:
        assert list(reader.pushFilters(filters)) == filters
    return reader, reader.partitions(), schema


def rows_of(reader: Any, tasks: list[Any], schema: StructType) -> list[dict[str, Any]]:
    """The rows that the tasks read."""
    rows = []
    target = arrow_schema(schema)
    for task in tasks:
        for batch in copied(reader).read(copied(task)):
            assert target.equals(batch.schema)
            rows += batch.to_pylist()
    return rows


def browse(
    options: Mapping[str, str], schema: StructType | None = None, filters: list[Any] | None = None
) -> list[dict[str, Any]]:
    """Read a batch."""
    return rows_of(*batch_tasks(options, schema, filters))


def write(options: Mapping[str, str], schema: StructType, *tasks: pa.RecordBatch) -> None:
    """Write a batch, each record batch in a separate task; a failing task aborts the others."""
    writer = OxbusDataSource(dict(options)).writer(schema=schema, overwrite=False)
    messages: list[Any] = []
    try:
        for task in tasks:
            messages.append(copied(copied(writer).write(iter([task]))))  # noqa: PERF401 (one may fail)
    except BaseException:
        copied(writer).abort([*messages, None])
        raise
    copied(writer).commit(messages)
