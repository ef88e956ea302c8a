# SPDX-License-Identifier: Apache-2.0
"""The same rows through what Spark has built in: a sink that drops rows in the JVM, Parquet files, a source of rows.

None of them starts a Python task, and none delivers a message once or keeps the order of a key. They show what a job of
this shape costs where no queue is needed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from plan import WHOLE, Plan
from targets import NOOP, PARQUET, RATE_SOURCE

from cases.case import Case, expect
from cases.spark_paths import BATCH_ROWS, FILLER, ROWS, count_right, frame, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming import DataStreamWriter

_FILES = 4
"""Files of Parquet that a stream reads, one in each batch."""


@dataclass
class Files:
    """A directory for one round, with `rows` rows in Parquet files if they are read."""

    directory: tempfile.TemporaryDirectory[str]
    rows: int

    def path(self, name: str) -> str:
        """Where something lies."""
        return f"{self.directory.name}/{name}"

    def close(self) -> None:
        """Remove the directory."""
        self.directory.cleanup()


def _make(rows: int, *, filled: bool) -> Files:
    files = Files(tempfile.TemporaryDirectory(), rows)
    if filled:
        frame(rows).repartition(_FILES).write.parquet(files.path("in"))
    return files


def _write_noop(files: Files) -> int:
    frame(files.rows).write.format("noop").mode("append").save()
    return files.rows


def _write_parquet(files: Files) -> int:
    frame(files.rows).write.parquet(files.path("out"))
    return files.rows


def _read_parquet(files: Files) -> int:
    return count_right(session().read.parquet(files.path("in")))


def _copy_parquet(files: Files) -> int:
    session().read.parquet(files.path("in")).write.parquet(files.path("out"))
    return files.rows


def _stream_of(files: Files, sink: DataStreamWriter) -> int:
    query = sink.option("checkpointLocation", files.path("checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def _stream_parquet(files: Files) -> int:
    source = session().readStream.schema("body binary, partition_key string").option("maxFilesPerTrigger", 1)
    sink = source.parquet(files.path("in")).writeStream.format("parquet").option("path", files.path("out"))
    return _stream_of(files, sink)


def _stream_rate(files: Files) -> int:
    """A source of rows of the same size; it has no end, so the query stops after the last batch."""
    source = session().readStream.format("rate-micro-batch")
    source = source.options(rowsPerBatch=BATCH_ROWS, numPartitions=2)
    rows = source.load().selectExpr(
        f"cast(concat(lpad(cast(value as string), 16, '0'), '{FILLER}') as binary) as body",
        "concat('key-', value % 977) as partition_key",
    )
    sink = rows.writeStream.format("noop").option("checkpointLocation", files.path("checkpoint"))
    query = sink.trigger(processingTime="0 seconds").start()
    try:
        while (done := sum(int(progress["numInputRows"]) for progress in query.recentProgress)) < files.rows:
            query.awaitTermination(0.01)
    finally:
        query.stop()
    return min(done, files.rows)


def _check(files: Files, rows: int) -> None:
    expect("rows", rows, files.rows)


_JOBS: tuple[tuple[str, str, Callable[[Files], int], bool], ...] = (
    ("spark_write", NOOP, _write_noop, False),
    ("spark_write", PARQUET, _write_parquet, False),
    ("spark_read", PARQUET, _read_parquet, True),
    ("spark_copy", PARQUET, _copy_parquet, True),
    ("spark_stream", PARQUET, _stream_parquet, True),
    ("spark_stream", RATE_SOURCE, _stream_rate, False),
)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """The built-in jobs, by the ids of the paths beside which they run."""
    rows = plan.of(ROWS)
    return [
        Case(f"{job}/1KiB/2tasks", contender, rows, partial(_make, rows, filled=filled), run, _check, Files.close)
        for job, contender, run, filled in _JOBS
    ]
