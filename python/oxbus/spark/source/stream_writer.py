# SPDX-License-Identifier: Apache-2.0
"""`writeStream.format("oxbus")`: each batch becomes visible as a whole and once, however often Spark runs it.

Spark creates a new writer for each batch and for each commit. The commit messages of the tasks therefore contain all
that a commit needs: the sink, the query, and the stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from oxbus.spark.source import task_writer
from oxbus.spark.source.rows import rows_as_batches
from oxbus.spark.source.sink_columns import sink_columns
from oxbus.spark.source.versions import STREAM_WRITES_ARROW, StreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from oxbus.spark.source.settings import SinkSettings

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


class OxbusStreamWriter(StreamWriter):
    """The writer of one batch of a stream."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._task_writer = task_writer.TaskWriter(
            settings, sink_columns(schema, settings), task_writer.target_of(settings)
        )

    def write(self, iterator: Iterator[Any]) -> task_writer.TaskCommit:
        """Stage or send the rows of one task."""
        batches = iterator if STREAM_WRITES_ARROW else rows_as_batches(iterator, self._schema)
        if not self._settings.staged:
            return self._task_writer.send(batches)
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context is not None else None
        if context is None or query is None:
            raise RuntimeError("only tasks of a streaming query can write a stream; use df.write for a batch")
        batch = context.getLocalProperty(_BATCH)
        task = f"{context.partitionId()}/{context.taskAttemptId()}"
        return self._task_writer.stage(batches, self._settings.sink_id or query, query, f"{batch}/{task}")

    def commit(self, messages: list[task_writer.TaskCommit | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Publish the rows of all tasks, unless they were published before."""
        task_writer.commit(self._settings, messages, batchId)

    def abort(self, messages: list[task_writer.TaskCommit | None], batchId: int) -> None:  # noqa: N803
        """Discard the staged rows, unless they were published already."""
        task_writer.abort(self._settings, messages, batchId)
