# SPDX-License-Identifier: Apache-2.0
"""Bulk drain: tasks of a Spark job read the partitions of a namespace in a directory and settle them afterwards.

A task opens its partition, returns the messages in it, and closes it. It locks and settles nothing, so a retried task
returns the same messages. Once they are processed, a second job settles them by sequence number; settling a message
again has no effect. No server is needed; all executors must see the directory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from oxbus._entity_path import split_sub_queue
from oxbus._oxbus import _Drain
from oxbus.spark.elements import in_form_of
from oxbus.spark.owned import owned_partition, shards_of
from oxbus.spark.source.schemas import ADDED_COLUMNS, arrow_schema, as_batches, drained_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SETTLED_SCHEMA = "partition_id int, settled bigint"
"""Result schema of `mapInArrow` and `mapInPandas` with a `settler`."""

_PAGE_BYTES = 2 << 20
_TASKS_PER_CORE = 2
"""Several, so that one long task does not leave a core idle for long."""


@dataclass(frozen=True, kw_only=True)
class Receiver:
    """The function that `receiver` returns, for `mapPartitions`, `mapInArrow` and `mapInPandas`."""

    path: str
    queue: str
    schema: StructType
    shards: tuple[int, ...]
    wait_time: float

    def __call__(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Return the messages of the partitions that the elements name, in the form of the elements."""
        target = arrow_schema(self.schema)
        for element in elements:
            for partition in _numbers(element, "partition_id"):
                for batch in self._batches(partition, target):
                    yield from in_form_of(element, batch)

    def _batches(self, partition: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        entity, sub_queue = split_sub_queue(self.queue)
        columns = [name for name in target.names if name not in ADDED_COLUMNS]
        with owned_partition(self.path, _shard(self.shards, partition), self.wait_time, "os") as namespace:
            drain = _Drain(namespace, entity, sub_queue, partition, columns)
            number: int | None = 0
            while number is not None:
                page, number = drain.page(number, _PAGE_BYTES)
                yield from as_batches(page, target, {"queue": self.queue})


@dataclass(frozen=True, kw_only=True)
class Settler:
    """The function that `settler` returns, for `mapPartitions`, `foreachPartition`, `mapInArrow` and `mapInPandas`."""

    path: str
    queue: str
    outcome: str
    reason: str | None
    description: str | None
    shards: tuple[int, ...]
    wait_time: float

    def __call__(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Settle the messages that the elements name; return their number, in the form of the elements."""
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        wanted: dict[int, list[int]] = defaultdict(list)
        like: Any = None
        for element in elements:
            like = element
            for number in _numbers(element, "sequence_number"):
                wanted[number >> 48].append(number)
        entity, sub_queue = split_sub_queue(self.queue)
        for partition, numbers in sorted(wanted.items()):
            with owned_partition(self.path, _shard(self.shards, partition), self.wait_time) as namespace:
                drain = _Drain(namespace, entity, sub_queue, partition)
                settled = drain.settle(pa.array(numbers, pa.int64()), self.outcome, self.reason, self.description)
            counts = {"partition_id": pa.array([partition], pa.int32()), "settled": pa.array([settled], pa.int64())}
            yield from in_form_of(like, pa.record_batch(counts))


def partitions(spark: SparkSession, *, path: str | os.PathLike[str], queue: str, tasks: int | None = None) -> DataFrame:
    """Create a frame with one row for each partition of a queue, for a `receiver`.

    Args:
        spark: The session.
        path: Directory of the namespace.
        queue: A queue.
        tasks: Number of tasks that share the partitions, at most one per partition. None: two per core, because
            starting a task costs Spark about 50 ms. A task has one partition open at a time.

    Returns:
        A frame with one column `partition_id` (int).

    Raises:
        FileNotFoundError: The directory is not a namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        ValueError: `tasks` is less than 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks must be at least 1; got {tasks}")
    count = len(shards_of(os.fspath(path), split_sub_queue(queue)[0]))
    wanted = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism if tasks is None else tasks
    return spark.range(0, count, 1, min(count, wanted)).selectExpr("cast(id as int) as partition_id")


def receiver(
    *, path: str | os.PathLike[str], queue: str, columns: Sequence[str] | None = None, wait_time: float = 60.0
) -> Receiver:
    """Create a function that returns the messages of the given partitions, for bulk drains.

    Use it with `partitions(...).mapInArrow(it, it.schema)`, which is the fastest, with `mapInPandas`, or with
    `rdd.mapPartitions` over partition ids, which gives Rows. It locks and settles nothing: the messages stay until a
    `settler` settles them. Deferred, scheduled, locked and expired messages are skipped.

    Args:
        path: Directory of the namespace; all executors must see it.
        queue: A queue, ``"topic/Subscriptions/name"``, or either with ``"/$deadletterqueue"``.
        columns: The message columns to read; None: all. A settler needs `sequence_number`.
        wait_time: Seconds that a task waits for a partition that another process has open.

    Returns:
        The function; its `schema` is that of the resulting frame.

    Raises:
        FileNotFoundError: The directory is not a namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        ValueError: A column is unknown.
        NamespaceInUseError: In a task: another process has had its partition open for `wait_time` seconds.
    """
    return Receiver(
        path=os.fspath(path),
        queue=queue,
        schema=drained_schema(columns),
        shards=shards_of(os.fspath(path), split_sub_queue(queue)[0]),
        wait_time=wait_time,
    )


def settler(
    *,
    path: str | os.PathLike[str],
    queue: str,
    outcome: Literal["complete", "defer", "dead_letter"] = "complete",
    reason: str | None = None,
    description: str | None = None,
    wait_time: float = 60.0,
) -> Settler:
    """Create a function that settles messages by `sequence_number`, after a `receiver` has read them.

    Use it with `DataFrame.mapInArrow(settler(...), SETTLED_SCHEMA)`, `mapInPandas`, `foreachPartition` or
    `rdd.mapPartitions`. Missing and locked messages are skipped, so a task may be retried.

    Args:
        path: Directory of the namespace; all executors must see it.
        queue: The queue that the messages were read from.
        outcome: ``"complete"``, ``"defer"`` or ``"dead_letter"``.
        reason: Why messages are dead-lettered.
        description: What went wrong before they were dead-lettered.
        wait_time: Seconds that a task waits for a partition that another process has open.

    Returns:
        A function that returns partition and count for each partition in which a task settled messages.

    Raises:
        FileNotFoundError: The directory is not a namespace.
        MessagingEntityNotFoundError: The namespace has no such queue.
        ValueError: `outcome` is unknown, or a reason is given with another outcome than ``"dead_letter"``.
        NamespaceInUseError: In a task: another process has had its partition open for `wait_time` seconds.
    """
    if outcome not in ("complete", "defer", "dead_letter"):
        raise ValueError(f"outcome must be complete, defer or dead_letter: `{outcome}`")
    if outcome != "dead_letter" and (reason is not None or description is not None):
        raise ValueError("reason and description are for dead_letter only")
    return Settler(
        path=os.fspath(path),
        queue=queue,
        outcome=outcome,
        reason=reason,
        description=description,
        shards=shards_of(os.fspath(path), split_sub_queue(queue)[0]),
        wait_time=wait_time,
    )


def _shard(shards: tuple[int, ...], partition: int) -> int:
    if 0 <= partition < len(shards):
        return shards[partition]
    raise ValueError(f"no such partition; use 0 to {len(shards) - 1}: {partition}")


def _numbers(element: Any, column: str) -> list[int]:
    """Return the values of a column of a batch, a data frame or a row; a plain int is one value."""
    if isinstance(element, int):
        return [element]
    if hasattr(element, "iloc"):
        values = element[column].tolist() if column in element.columns else None
    elif hasattr(element, "schema"):
        values = element.column(column).to_pylist() if column in element.schema.names else None
    else:
        row = element.asDict() if hasattr(element, "asDict") else element
        values = [row[column]] if column in row else None
    if values is None:
        raise ValueError(f"column {column} is missing; it selects the messages")
    if any(value is None for value in values):
        raise ValueError(f"column {column} has a null; it selects the messages")
    return [int(value) for value in values]
