# SPDX-License-Identifier: Apache-2.0
"""Bulk load: tasks of a Spark job store rows in a queue of a namespace in a directory, each row once.

A task writes its rows into separate files, one per partition, without opening any partition. At its end it attaches
them under the name of the job and the task. A partition accepts rows of one name once: rows that an earlier or
speculative attempt attached are not attached again. The next process that opens the namespace sees the messages. No
server is needed; all executors must see the directory.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from oxbus._oxbus import _BulkLoad
from oxbus.spark.elements import LoadedRows, reader_of
from oxbus.spark.owned import check_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

BULK_LOAD_SCHEMA = "task int, partition int, rows bigint, attached boolean"
"""Result schema of `mapInArrow` and `mapInPandas` with a `sender`."""


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The function that `sender` returns, for `mapPartitions`, `foreachPartition`, `mapInArrow` and `mapInPandas`."""

    path: str
    queue: str
    job: str
    wait_time: float
    durability: Literal["fsync", "os"] | None

    def __call__(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Store the rows of one task; return the results in the form of the rows."""
        iterator = iter(elements)
        first = next(iterator, None)
        if first is None:
            return
        tables, shown = reader_of(first)
        loaded = self._load(tables(itertools.chain([first], iterator)))
        yield from shown(loaded)

    def _load(self, tables: Iterator[pa.Table]) -> list[LoadedRows]:
        task = _task()
        load = _BulkLoad(self.path, self.queue, f"{self.job}/{task}", keyless=task, durability=self.durability)
        for rows in tables:
            load.push(rows)
        return [LoadedRows(task, *loaded) for loaded in load.finish(self.wait_time)]


def sender(
    *,
    path: str | os.PathLike[str],
    queue: str,
    job: str,
    wait_time: float = 60.0,
    durability: Literal["fsync", "os"] | None = None,
) -> Sender:
    """Create a function that stores the rows of each task in a queue, for bulk loads.

    Use it with `DataFrame.mapInArrow(sender(...), BULK_LOAD_SCHEMA)`, which is the fastest, with `mapInPandas`, with
    `foreachPartition`, or with `rdd.mapPartitions`; Spark decides when the job runs. The columns, or keys of the rows,
    are those of `ServiceBusSender.send_arrow`. Frames from `aligned` touch one partition per task.

    Args:
        path: Directory of the namespace; all executors must see it.
        queue: A partitioned queue.
        job: The name of this load. A task that is retried under the same name stores nothing twice, for seven days.
            Another load needs another name: under the name of an earlier load its rows count as stored.
        wait_time: Seconds to wait for a partition that another process has open: in a task at its end, and in this call
            for any partition.
        durability: What the rows survive when their task ends: ``"fsync"`` or ``"os"``. None: the default.

    Returns:
        A function that returns a `LoadedRows` for each partition that a task stored rows in; for `mapInArrow` and
        `mapInPandas` as a batch or a data frame.

    Raises:
        FileNotFoundError: The directory is not a namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        NamespaceInUseError: Another process has all partitions open; or, in a task, one of them for `wait_time`
            seconds.
        InvalidOperationError: The queue has no partitions.
        ValueError: `job` is empty. In a task: a row is not a valid message; the text names the column or the row, and
            nothing of the task is stored.
    """
    if not job:
        raise ValueError("job is empty; name the load, and use another name for another load")
    where = os.fspath(path)
    # Report a wrong namespace or queue here; without rows the load leaves no files.
    check_namespace(where)
    _BulkLoad(where, queue, job, durability=durability).check_free(wait_time)
    return Sender(path=where, queue=queue, job=job, wait_time=wait_time, durability=durability)


def _task() -> int:
    """Return the partition number of this task; 0 outside of Spark."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
