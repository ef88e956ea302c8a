# SPDX-License-Identifier: Apache-2.0
"""Bulk load: the tasks of a Spark job put rows into the queue of a namespace in a directory, each row once.

A task writes its rows into files of its own, one per partition, without opening any partition. At its end it attaches
them under the name of the job and the task; a partition takes rows of one name once: what an earlier or a speculative
attempt attached is not attached again, and what it did not is. Whoever opens the namespace next finds the messages. No
server is needed; the directory must be one that all executors see.
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
"""What `mapInArrow` and `mapInPandas` with a `sender` return."""


@dataclass(frozen=True, kw_only=True)
class Sender:
    """A function for `mapPartitions`, `foreachPartition`, `mapInArrow` and `mapInPandas`; see `sender`."""

    path: str
    queue: str
    job: str
    wait_time: float
    durability: Literal["fsync", "os"] | None

    def __call__(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Store the rows of one task; what became of them, in the form in which the rows came."""
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
    """Make a function that stores the rows of each task in a queue, for bulk loads.

    Use it with `DataFrame.mapInArrow(sender(...), BULK_LOAD_SCHEMA)`, which is the fastest, with `mapInPandas`, with
    `foreachPartition`, or with `rdd.mapPartitions`; the job runs when Spark runs it. Columns, or keys of the rows, are
    those of `ServiceBusSender.send_arrow`. Frames from `aligned` touch one partition per task.

    Args:
        path: Directory of the namespace, which all executors see.
        queue: A partitioned queue.
        job: Names this load. A task that is tried again under the same name stores nothing twice, for seven days.
            Another load needs another name; what has the name of an earlier one counts as stored by that.
        wait_time: Seconds to wait for a partition that another process has open: a task at its end, and this call for
            any of them.
        durability: What the rows are safe from when their task ends, ``"fsync"`` or ``"os"``; ``None`` for the usual.

    Returns:
        A function that gives a `LoadedRows` for each partition that a task brought rows to; in `mapInArrow` and
        `mapInPandas` a batch or a data frame of them.

    Raises:
        FileNotFoundError: The directory is no namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        NamespaceInUseError: Another process has all partitions open; here, or in a task that waited for one of them.
        InvalidOperationError: The queue has no partitions.
        ValueError: `job` is empty.

    In a task, a row that is no message is a ValueError that names the column or the row; then nothing of the task is
    stored.
    """
    if not job:
        raise ValueError("job is empty; name the load, and use another name for another load")
    where = os.fspath(path)
    # What is wrong with the namespace or the queue is said here, and nothing is left behind: no row was added.
    check_namespace(where)
    _BulkLoad(where, queue, job, durability=durability).check_free(wait_time)
    return Sender(path=where, queue=queue, job=job, wait_time=wait_time, durability=durability)


def _task() -> int:
    """The number of this task's partition; 0 outside of Spark."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
