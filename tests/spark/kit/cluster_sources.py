# SPDX-License-Identifier: Apache-2.0
"""Sources whose tasks are slow or kill their executor; for a cluster of two executors."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faulty_sources import Faulty
from oxbus.spark.source.reserving_stream import ReservingStreamReader
from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def attempt_of(partition: int) -> int | None:
    """The attempt number of the task with that number; None in other tasks."""
    context = TaskContext.get()
    return context.attemptNumber() if context is not None and context.partitionId() == partition else None


def parent_of(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class OvertakenReader(ReservingStreamReader):
    """The first attempt of its first task waits until another attempt has read everything."""

    directory: Path

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Wait for the other attempt, or be the other attempt."""
        attempt = attempt_of(0)
        overtaken = self.directory / "overtaken"
        while attempt == 0 and not overtaken.exists():
            time.sleep(0.05)
        yield from super().read(partition)
        if attempt:
            overtaken.touch()


class OvertakenSource(Faulty):
    """A speculative copy overtakes its first task."""

    reader_class = OvertakenReader

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-overtaken"


class LosingReader(ReservingStreamReader):
    """The first attempt of its first task kills its executor during a read, once."""

    directory: Path

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Kill the executor after the first page."""
        lost = self.directory / "lost"
        for batch in super().read(partition):
            yield batch
            if attempt_of(0) == 0 and not lost.exists():
                lost.touch()
                daemon = os.getppid()  # the parent of this worker; the executor's JVM started it
                os.kill(parent_of(daemon), signal.SIGKILL)
                time.sleep(60)  # until the daemon, whose JVM is gone, ends this worker


class LosingSource(Faulty):
    """A source that kills an executor."""

    reader_class = LosingReader

    @classmethod
    def name(cls) -> str:
        """The name of the source."""
        return "oxbus-losing"
