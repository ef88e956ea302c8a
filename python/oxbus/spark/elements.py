# SPDX-License-Identifier: Apache-2.0
"""Elements of a Spark partition in any form: conversion to Arrow tables and back.

`mapInArrow` passes record batches, `mapInPandas` data frames, `foreachPartition` and `mapPartitions` rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_ROWS = 10_000
"""Rows per table."""


@dataclass(frozen=True)
class LoadedRows:
    """The rows that one task stored in one partition."""

    task: int
    """Partition number of the task in the frame or RDD."""
    partition: int
    """Partition of the queue."""
    rows: int
    """Rows of the task for that partition."""
    attached: bool
    """True if this attempt stored the rows, False if an earlier attempt did."""


def reader_of(first: Any) -> tuple[Any, Any]:
    """Return a function that reads elements of this type as tables, and one that converts results to this type."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(first, pa.RecordBatch):
        return _from_batches, _as_batch
    if hasattr(first, "iloc"):
        return _from_frames, _as_frame
    return _from_rows, iter


def in_form_of(element: Any, batch: pa.RecordBatch) -> Iterator[Any]:
    """Convert a batch to the form of an element: a batch, a data frame, or rows."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(element, pa.RecordBatch):
        yield batch
    elif hasattr(element, "iloc"):
        yield batch.to_pandas()
    else:
        from pyspark.sql import Row  # noqa: PLC0415 -- rows come from Spark

        for row in batch.to_pylist():
            yield Row(**row)


def _from_batches(batches: Iterator[Any]) -> Iterator[pa.Table]:
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        yield pa.Table.from_batches([batch])


def _from_frames(frames: Iterator[Any]) -> Iterator[pa.Table]:
    import pyarrow as pa  # noqa: PLC0415

    for frame in frames:
        yield pa.Table.from_pandas(frame, preserve_index=False)


def _from_rows(rows: Iterator[Any]) -> Iterator[pa.Table]:
    import pyarrow as pa  # noqa: PLC0415

    while chunk := list(itertools.islice(rows, _ROWS)):
        dicts = [row.asDict() if hasattr(row, "asDict") else row for row in chunk]
        if not isinstance(dicts[0], dict):
            raise TypeError(
                f"rows must be Rows or dicts with the properties of messages; got {type(dicts[0]).__name__}"
            )
        names = list(dict.fromkeys(name for row in dicts for name in row))
        columns = {name: pa.array([row.get(name) for row in dicts], _type_of(name)) for name in names}
        yield pa.table(columns)


def _type_of(name: str) -> pa.DataType | None:
    import pyarrow as pa  # noqa: PLC0415

    return pa.map_(pa.string(), pa.string()) if name == "application_properties" else None


def _as_batch(loaded: list[LoadedRows]) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415

    yield pa.record_batch(
        {
            "task": pa.array([row.task for row in loaded], pa.int32()),
            "partition": pa.array([row.partition for row in loaded], pa.int32()),
            "rows": pa.array([row.rows for row in loaded], pa.int64()),
            "attached": pa.array([row.attached for row in loaded], pa.bool_()),
        }
    )


def _as_frame(loaded: list[LoadedRows]) -> Iterator[Any]:
    for batch in _as_batch(loaded):
        yield batch.to_pandas()
