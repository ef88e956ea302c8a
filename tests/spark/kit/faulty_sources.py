# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks that fail at one exact point, each registered under its own name.

They have one more option, `testDirectory`: the files that they write there show the test their state, and prevent a
second failure.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oxbus.spark.source.data_source import OxbusDataSource
from oxbus.spark.source.reserving_stream import ReservingStreamReader
from oxbus.spark.source.settings import sink_settings, source_settings
from oxbus.spark.source.stream_writer import OxbusStreamWriter
from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

DEATHS = ("after reserving", "while planning", "while reading", "after the sink's commit", "before completing")
"""The points at which a driver can die, each in its second batch."""

_SECOND = 2  # the number of its reservation; Spark counts batches from 0


class Faulty(OxbusDataSource):
    """Base class of the faulty sources."""

    reader_class: Any = ReservingStreamReader
    writer_class: Any = OxbusStreamWriter

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name.lower() != "testdirectory"})
        self.directory = Path({name.lower(): value for name, value in options.items()}["testdirectory"])

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 (Spark's name, as below)
        """Make a reader that fails."""
        reader = self.reader_class(source_settings(self.options, "stream read"), schema)
        reader.directory = self.directory
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, N802
        """Make a writer that fails."""
        writer = self.writer_class(sink_settings(self.options, "stream write"), schema)
        writer.directory = self.directory
        return writer


def kill_driver(directory: Path) -> None:
    """Kill the driver and its JVM as `kill -9` does, and then this process."""
    for pid in (directory / "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def is_point(directory: Path, point: str) -> bool:
    """Whether the driver must die at this point."""
    return (directory / "point").read_text() == point


class DyingReader(ReservingStreamReader):
    """Kills its driver at one point of the second batch."""

    directory: Path

    def latestOffset(self, start: Any = None, limit: Any = None) -> Any:  # noqa: N802
        """Die before completing the second batch, or after reserving it."""
        if start["n"] == _SECOND and is_point(self.directory, "before completing"):
            kill_driver(self.directory)
        end = super().latestOffset(start, limit)
        if end["n"] == _SECOND and is_point(self.directory, "after reserving"):
            kill_driver(self.directory)
        return end

    def partitions(self, start: Any, end: Any) -> Any:
        """Die when the second batch is logged."""
        tasks = super().partitions(start, end)
        if end["n"] == _SECOND and is_point(self.directory, "while planning"):
            kill_driver(self.directory)
        return tasks

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Die during the read of the second batch."""
        for batch in super().read(partition):
            yield batch
            context = TaskContext.get()
            number = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
            if number == str(_SECOND - 1) and is_point(self.directory, "while reading"):
                kill_driver(self.directory)


class DyingWriter(OxbusStreamWriter):
    """Kills its driver when the second batch is visible in the sink, before Spark learns of it."""

    directory: Path

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Die after the commit."""
        super().commit(messages, batchId)
        if batchId == _SECOND - 1 and is_point(self.directory, "after the sink's commit"):
            kill_driver(self.directory)


class DyingSource(Faulty):
    """A source whose driver dies."""

    reader_class = DyingReader
    writer_class = DyingWriter

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-dying"


class StoppingReader(ReservingStreamReader):
    """Writes the process in which it runs on the driver, and that it was stopped."""

    directory: Path

    def initialOffset(self) -> Any:  # noqa: N802
        """Start, and write the process id."""
        (self.directory / "running").write_text(str(os.getpid()))
        return super().initialOffset()

    def stop(self) -> None:
        """Stop, and write that."""
        super().stop()
        (self.directory / "stopped").touch()


class StoppingSource(Faulty):
    """A source that records that it was stopped."""

    reader_class = StoppingReader

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-stopping"


def stumble(directory: Path) -> None:
    """Fail if this is the first attempt of a task, and write a file about it."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        batch = context.getLocalProperty("streaming.sql.batchId")
        (directory / f"stumbled-{batch}-{context.partitionId()}").touch()
        raise RuntimeError("the first attempt of a task fails")


class StumblingReader(ReservingStreamReader):
    """The first attempts of its tasks fail during the read."""

    directory: Path

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Fail after the first page."""
        for batch in super().read(partition):
            yield batch
            stumble(self.directory)


class StumblingWriter(OxbusStreamWriter):
    """The first attempts of its tasks fail after they wrote everything."""

    directory: Path

    def write(self, iterator: Iterator[Any]) -> Any:
        """Fail when all rows are staged."""
        written = super().write(iterator)
        stumble(self.directory)
        return written


class StumblingSource(Faulty):
    """A source whose tasks need a second attempt."""

    reader_class = StumblingReader
    writer_class = StumblingWriter

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-stumbling"


class StalledReader(ReservingStreamReader):
    """Its process blocks when the second batch is planned, until the test releases it."""

    directory: Path

    def partitions(self, start: Any, end: Any) -> Any:
        """Block once."""
        tasks = super().partitions(start, end)
        stalled = self.directory / "stalled"
        if end["n"] == _SECOND and not stalled.exists():
            stalled.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return tasks


class StalledSource(Faulty):
    """A source whose driver stalls."""

    reader_class = StalledReader

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-stalled"
