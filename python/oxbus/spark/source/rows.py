# SPDX-License-Identifier: Apache-2.0
"""Conversion of rows to Arrow batches for PySpark 4.0, whose stream writers get rows."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import VariantVal

from oxbus.spark.source.schemas import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

_ROWS = 10_000


def rows_as_batches(rows: Iterator[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Collect rows into batches with the types that Spark gives Arrow writers."""
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    target = arrow_schema(schema)
    while chunk := list(itertools.islice(rows, _ROWS)):
        columns = [pa.array([_as_arrow(row[place]) for row in chunk], field.type) for place, field in enumerate(target)]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _as_arrow(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)  # times of rows are naive, in the worker's time zone
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, VariantVal):
        return {"value": value.value, "metadata": value.metadata}
    return value
