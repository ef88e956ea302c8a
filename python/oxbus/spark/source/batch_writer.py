# SPDX-License-Identifier: Apache-2.0
"""`df.write.format("oxbus")`: sends the rows of a frame at once or, with `delivery` exactlyOnce, all together."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from oxbus.spark.source import task_writer
from oxbus.spark.source.sink_columns import sink_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from oxbus.spark.source.settings import SinkSettings

_ONLY_BATCH = 0


class BatchWriter(DataSourceArrowWriter):
    """The writer of one batch write; Spark pickles this instance to the tasks and to the commit.

    The commit has a generated name, or that of the option sinkId; with sinkId a repeated write stores nothing.
    """

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        self._settings = settings
        columns = sink_columns(schema, settings)
        self._task_writer = task_writer.TaskWriter(settings, columns, task_writer.target_of(settings))
        self._name = settings.sink_id or f"write-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> task_writer.TaskCommit:
        """Send or stage the rows of one task."""
        if not self._settings.staged:
            return self._task_writer.send(iterator)
        context = TaskContext.get()
        task = f"{context.partitionId()}/{context.taskAttemptId()}" if context is not None else "0/0"
        return self._task_writer.stage(iterator, self._name, self._name, f"{_ONLY_BATCH}/{task}")

    def commit(self, messages: list[task_writer.TaskCommit | None]) -> None:
        """Publish the rows of all tasks."""
        task_writer.commit(self._settings, messages, _ONLY_BATCH)

    def abort(self, messages: list[task_writer.TaskCommit | None]) -> None:
        """Discard the staged rows."""
        task_writer.abort(self._settings, messages, _ONLY_BATCH)
