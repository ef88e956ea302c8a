# SPDX-License-Identifier: Apache-2.0
"""A Spark source and a sink in Python with nothing behind them: rows are made and dropped.

They do what every such source and sink has to: the callbacks on the driver, one Python task for each core, Arrow in and
out. A batch or a stream through them costs only Spark's own work.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "nothing"
_PAGE_ROWS = 2048
_TASKS = 2
"""Number of tasks of a stream; for a batch the option `tasks` sets it."""


@dataclass(frozen=True)
class Share(InputPartition):
    """Rows that one task makes."""

    rows: int


@dataclass(frozen=True)
class Dropped(WriterCommitMessage):
    """Rows that one task dropped."""

    rows: int


class Nothing(DataSource):
    """The source and the sink."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def schema(self) -> str:
        """The same as the bench reads from a queue."""
        return "body binary, partition_key string"

    def reader(self, schema: StructType) -> NothingReader:  # noqa: ARG002 (Spark's name, as below)
        """The source of a batch."""
        return NothingReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> NothingWriter:  # noqa: ARG002
        """The sink of a batch."""
        return NothingWriter()

    def streamReader(self, schema: StructType) -> NothingStreamReader:  # noqa: ARG002, N802
        """The source of a stream."""
        return NothingStreamReader(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NothingStreamWriter:  # noqa: ARG002, N802
        """The sink of a stream."""
        return NothingStreamWriter()


def _pages(body_bytes: int, rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    bodies = pa.array([b"x" * (body_bytes - 1) + b"."] * _PAGE_ROWS, pa.binary())
    page = pa.record_batch({"body": bodies, "partition_key": pa.array(["key"] * _PAGE_ROWS)})
    for first in range(0, rows, _PAGE_ROWS):
        yield page.slice(0, min(_PAGE_ROWS, rows - first))


def _shares(rows: int, tasks: int) -> list[InputPartition]:
    return [Share(rows // tasks + (task < rows % tasks)) for task in range(tasks)]


class NothingReader(DataSourceReader):
    """A batch source of a given number of rows and tasks."""

    def __init__(self, options: Any) -> None:
        self._rows = int(options["rows"])
        self._tasks = int(options["tasks"])
        self._body_bytes = int(options["bodyBytes"])

    def partitions(self) -> list[InputPartition]:
        """Equal shares."""
        return _shares(self._rows, self._tasks)

    def read(self, partition: Share) -> Iterator[pa.RecordBatch]:
        """Make the rows of a task."""
        return _pages(self._body_bytes, partition.rows)


class NothingWriter(DataSourceArrowWriter):
    """Drops what it gets."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Dropped:
        """Count the rows of a task."""
        return Dropped(sum(batch.num_rows for batch in iterator))


class NothingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream source of a given number of rows, in batches of a given size."""

    def __init__(self, options: Any) -> None:
        self._rows = int(options["rows"])
        self._batch_rows = int(options["batchRows"])
        self._body_bytes = int(options["bodyBytes"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first row."""
        return {"row": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All rows exist from the beginning."""

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802
        """Rows of a batch."""
        return ReadMaxRows(self._batch_rows)

    def latestOffset(self, start: dict[str, int], limit: ReadMaxRows) -> dict[str, int]:  # noqa: N802
        """Behind the next batch."""
        return {"row": min(self._rows, start["row"] + limit.max_rows)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Figures of the progress report."""
        return {"row": self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Equal shares; one when there is only a row."""
        rows = end["row"] - start["row"]
        return _shares(rows, min(_TASKS, rows))

    def read(self, partition: Share) -> Iterator[pa.RecordBatch]:
        """Make the rows of a task."""
        return _pages(self._body_bytes, partition.rows)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


class NothingStreamWriter(DataSourceStreamArrowWriter):
    """Drops what it gets."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Dropped:
        """Count the rows of a task."""
        return Dropped(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[Dropped | None], batchId: int) -> None:  # noqa: N803
        """Nothing is kept."""


def register(spark: SparkSession) -> None:
    """Make the source and the sink known. Spark's workers do not see this module, so they get all of it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(Nothing)
