# SPDX-License-Identifier: Apache-2.0
"""Bulk load: the tasks of a Spark job put rows into the queue of a namespace in a directory, each row once.

A task gathers its rows, then opens the partitions they belong to, one after the other, and attaches the rows of each in
one step, under the name of the job and the task. A partition takes rows of one name once: what an earlier or a
speculative attempt attached is not attached again, and what it did not is. No server is needed; the directory must be
one that all executors see.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import oxbus
from oxbus import ServiceBusClient
from oxbus.spark.elements import LoadedRows, reader_of
from oxbus.spark.owned import owned_partition, partitions_of

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
    partitions: int
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
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        task = _task()
        rows = pa.concat_tables(tables, promote_options="default")
        places = self._places(rows, task)
        loaded = []
        for partition in sorted(set(places.unique().to_pylist())):
            group = rows.filter(pa.compute.equal(places, partition))
            with owned_partition(self.path, partition, self.wait_time, self.durability) as namespace:
                sender = ServiceBusClient(namespace).get_queue_sender(self.queue)
                attached = sender._attach_arrow(group, f"{self.job}/{task}", partition)
            loaded.append(LoadedRows(task, partition, group.num_rows, partition in attached))
        return loaded

    def _places(self, rows: pa.Table, task: int) -> pa.Array:
        """The partition of each row: that of its key or, without one, the task's own."""
        import pyarrow as pa  # noqa: PLC0415

        present = [name for name in ("session_id", "partition_key") if name in rows.column_names]
        keys = [rows[name].cast(pa.string()) for name in present]
        own = pa.scalar(task % self.partitions, pa.int32())
        if not keys:
            return pa.array([own.as_py()] * rows.num_rows, pa.int32())
        key = pa.compute.coalesce(*keys).combine_chunks()
        return pa.compute.fill_null(pa.array(oxbus.partition_ids(key, self.partitions)), own)


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
    those of `ServiceBusSender.send_arrow`. Frames from `aligned` touch one partition per task and so wait for nobody.

    Args:
        path: Directory of the namespace, which all executors see.
        queue: A partitioned queue.
        job: Names this load. A task that is tried again under the same name stores nothing twice, for seven days.
            Another load needs another name; what has the name of an earlier one counts as stored by that.
        wait_time: Seconds that a task waits for a partition that another task or process has.
        durability: What the rows are safe from when their task ends, ``"fsync"`` or ``"os"``; ``None`` for the usual.

    Returns:
        A function that gives a `LoadedRows` for each partition that a task brought rows to; in `mapInArrow` and
        `mapInPandas` a batch or a data frame of them.

    Raises:
        FileNotFoundError: The directory is no namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        NamespaceInUseError: Another process has the whole namespace; here, or in a task that waited for one partition.
        InvalidOperationError: The queue has no partitions.
        ValueError: `job` is empty.

    In a task, a row that is no message is a ValueError that names the column or the row; then nothing of the task is
    stored in that partition.
    """
    if not job:
        raise ValueError("job is empty; name the load, and use another name for another load")
    where = os.fspath(path)
    return Sender(
        path=where,
        queue=queue,
        job=job,
        partitions=partitions_of(where, queue, wait_time),
        wait_time=wait_time,
        durability=durability,
    )


def _task() -> int:
    """The number of this task's partition; 0 outside of Spark."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
