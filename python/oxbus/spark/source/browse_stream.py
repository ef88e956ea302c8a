# SPDX-License-Identifier: Apache-2.0
"""`readStream` with `receiveMode` peek: follows the sequence numbers of each partition; it locks and settles nothing.

Two such streams each see all messages. A message that others settle before it is read is not seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from oxbus.spark.source.entity import describe
from oxbus.spark.source.offsets import Offset, browsed_positions, browsing_offset
from oxbus.spark.source.pages import read_task
from oxbus.spark.source.positions import average_bytes, fail_on_lost, first_positions, slices_between
from oxbus.spark.source.progress import entity_progress
from oxbus.spark.source.schemas import arrow_schema, check_source_schema
from oxbus.spark.source.tasks import Task, pack
from oxbus.spark.source.trigger_delay import TriggerDelay
from oxbus.spark.source.versions import AvailableNow, messages_allowed, read_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from oxbus.spark.source.entity import Entity
    from oxbus.spark.source.positions import Positions
    from oxbus.spark.source.settings import SourceSettings

_POLL_SECONDS = 0.05


class BrowsingStreamReader(DataSourceStreamReader, AvailableNow):
    """The reader of a browsing stream."""

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        check_source_schema(schema, settings.properties_as)
        self._settings = settings
        self._schema = schema
        self._last: Offset | None = None
        """The last offset: before 4.2 Spark does not pass it to `latestOffset`."""
        self._stop_at: Positions | None = None
        self._seen: Entity | None = None
        self._behind: tuple[int, ...] = ()
        self._delay = TriggerDelay(settings.messages_min, settings.trigger_delay_seconds)

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name, as below)
        """Return where a new query begins."""
        client = self._settings.connection.client()
        entity = describe(client, self._settings.entity)
        begin = first_positions(client, entity, self._settings)
        self._last = browsing_offset(entity.incarnation, begin, begin)
        return self._last

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a trigger."""
        return read_limit(self._settings.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the current end, where the query stops."""
        self._stop_at = describe(self._settings.connection.client(), self._settings.entity).ends

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Return where the next batch ends, waiting for new messages."""
        start = start or self._last or self.initialOffset()
        deadline = time.monotonic() + self._settings.wait_seconds
        while True:
            entity = describe(self._settings.connection.client(), self._settings.entity)
            self._seen = entity
            _, begin = browsed_positions(start, path=entity.path, incarnation=entity.incarnation)
            if self._settings.fail_on_data_loss:
                fail_on_lost(entity, begin)
            begin = tuple(max(it) for it in zip(begin, entity.starts, strict=True))
            ends = entity.ends if self._stop_at is None else tuple(map(min, entity.ends, self._stop_at))
            allowed = self._settings.messages_max if limit is None else messages_allowed(limit)
            end = _admitted(begin, ends, sum(ends) if allowed is None else allowed)
            waiting = sum(_distances(begin, entity.ends))
            if end != begin and (self._stop_at is not None or not self._delay.holds(waiting)):
                self._delay.begin_batch()
                self._behind = _distances(end, entity.ends)
                return browsing_offset(entity.incarnation, begin, end)
            if time.monotonic() >= deadline or self._stop_at is not None:
                return start
            time.sleep(_POLL_SECONDS)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return counts of messages, shown as latest offset in the progress of the query."""
        if self._seen is None:
            return None
        return entity_progress(self._seen, self._behind or self._seen.active_by_partition)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Divide a batch into tasks."""
        self._last = end
        if start == end:
            return []
        client = self._settings.connection.client()
        entity = describe(client, self._settings.entity)
        begin, last = browsed_positions(end, path=entity.path, incarnation=entity.incarnation)
        shares = slices_between(begin, last, average_bytes(client, entity, begin, last))
        settings = self._settings
        packed = pack(
            shares, task_bytes=settings.task_bytes, tasks_min=settings.tasks_min, tasks_max=settings.tasks_max
        )
        return [Task(shares) for shares in packed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task."""
        return read_task(self._settings, arrow_schema(self._schema), partition)

    def commit(self, end: Offset) -> None:
        """Do nothing: browsing settles nothing."""


def _distances(begin: Positions, ends: Positions) -> Positions:
    """By partition, how far the end is; 0 in partitions that the query does not read, whose position is beyond it."""
    return tuple(max(0, end - first) for first, end in zip(begin, ends, strict=True))


def _admitted(begin: Positions, ends: Positions, allowed: int) -> Positions:
    """Return the end of a batch within the limit; each partition contributes in proportion to its messages."""
    waiting = _distances(begin, ends)
    total = sum(waiting)
    if total <= allowed:
        return tuple(first + count for first, count in zip(begin, waiting, strict=True))
    shares = [count * allowed // total for count in waiting]
    for partition in range(len(shares)):
        if sum(shares) < allowed and shares[partition] < waiting[partition]:
            shares[partition] += 1
    return tuple(first + count for first, count in zip(begin, shares, strict=True))
