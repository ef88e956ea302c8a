# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a write do with their rows: stage them, or send them at once.

Staged rows are durable and unseen until the commit on the driver shows those of all tasks; an attempt that fails, or
that a speculative one overtakes, leaves stages that nobody names and that the broker lets go.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from oxbus.exceptions import ServiceBusError
from oxbus.spark.source.entity import partitions_of
from oxbus.spark.source.retries import retry_idempotent, retry_without_effect
from oxbus.spark.source.sink_columns import Target, by_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from oxbus._oxbus import BulkClient
    from oxbus.spark.source.settings import SinkSettings

_CHUNK_BYTES = 8 << 20
"""Bytes that go to the broker in one call."""


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """What one task wrote."""

    rows: int
    sink_id: str = ""
    """Under which the stages are to be committed; empty when the rows were sent at once."""
    query_id: str = ""
    stage_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskWriter:
    """How the tasks of a write reach their targets; pickled into them."""

    settings: SinkSettings
    columns: list[str]
    target: Target | None

    def send(self, batches: Iterable[pa.RecordBatch]) -> TaskCommit:
        """Send rows at once: a task that is tried again sends them again."""
        client = self.settings.connection.client()
        rows = 0
        for entity, chunk in self._chunks(client, batches):
            retry_without_effect(client.send, entity, chunk)
            rows += chunk.num_rows
        return TaskCommit(rows)

    def stage(self, batches: Iterable[pa.RecordBatch], sink_id: str, query_id: str, name: str) -> TaskCommit:
        """Stage rows under names that are new with each attempt."""
        client = self.settings.connection.client()
        ids: list[str] = []
        rows = 0
        try:
            for entity, chunk in self._chunks(client, batches):
                ids.append(f"{name}/{uuid.uuid4().hex}")
                rows += retry_without_effect(client.stage, entity, ids[-1], chunk)
        except BaseException:
            # They end by themselves if the broker is away now.
            with contextlib.suppress(ServiceBusError):
                client.abort_stages(sink_id, query_id, 0, ids)
            raise
        return TaskCommit(rows, sink_id, query_id, tuple(ids))

    def _chunks(self, client: BulkClient, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        """Gather rows of one target until they are worth a call."""
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        gathered: dict[str, list[Any]] = defaultdict(list)
        sizes: dict[str, int] = defaultdict(int)
        partitions = _PartitionCounts(client)
        for batch in batches:
            for entity, rows in by_target(batch, self.columns, self.target, partitions):
                for piece in _pieces(rows):
                    gathered[entity].append(piece)
                    sizes[entity] += piece.nbytes
                    if sizes[entity] >= _CHUNK_BYTES:
                        sizes.pop(entity)
                        yield entity, pa.Table.from_batches(gathered.pop(entity))
        for entity, pieces in gathered.items():
            table = pa.Table.from_batches(pieces)
            if table.num_rows:
                yield entity, table


class _PartitionCounts(dict[str, int]):
    """How many partitions each entity has; asked once."""

    def __init__(self, client: BulkClient) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, entity: str) -> int:
        self[entity] = partitions_of(self._client, entity)
        return self[entity]


def target_of(settings: SinkSettings) -> Target | None:
    """Look the target up, so that one that is missing is found before any task runs.

    Raises:
        MessagingEntityNotFoundError: There is no such entity.
    """
    if settings.entity is None:
        return None
    return Target(settings.entity, partitions_of(settings.connection.client(), settings.entity))


def commit(settings: SinkSettings, messages: Iterable[TaskCommit | None], batch: int) -> None:
    """Show what the tasks of a batch staged, all of it or, if the batch was committed before, nothing."""
    staged = [message for message in messages if message is not None and message.sink_id]
    if staged:
        ids = [stage_id for message in staged for stage_id in message.stage_ids]
        client = settings.connection.client()
        retry_idempotent(client.commit_stages, staged[0].sink_id, staged[0].query_id, batch, ids)


def abort(settings: SinkSettings, messages: Iterable[TaskCommit | None], batch: int) -> None:
    """Drop what the tasks of a batch staged, unless the batch is committed: Spark also aborts after doubt."""
    staged = [message for message in messages if message is not None and message.sink_id]
    if staged:
        ids = [stage_id for message in staged for stage_id in message.stage_ids]
        client = settings.connection.client()
        retry_idempotent(client.abort_stages, staged[0].sink_id, staged[0].query_id, batch, ids)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that none of the pieces is much larger than a call should be."""
    if rows.nbytes <= _CHUNK_BYTES or rows.num_rows <= 1:
        yield rows
        return
    length = max(1, rows.num_rows * _CHUNK_BYTES // rows.nbytes)
    for start in range(0, rows.num_rows, length):
        yield rows.slice(start, length)
