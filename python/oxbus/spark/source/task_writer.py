# SPDX-License-Identifier: Apache-2.0
"""Writing the rows of tasks: staged, or sent at once.

Staged rows are durable and invisible until the commit on the driver publishes those of all tasks. An attempt that
fails, or that a speculative one overtakes, leaves stages that no commit names; the broker removes them.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from oxbus.exceptions import ServiceBusError
from oxbus.spark.source.entity import partitions_of
from oxbus.spark.source.retries import AWAY
from oxbus.spark.source.sink_columns import Target, by_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from oxbus._oxbus import BulkClient
    from oxbus.spark.source.settings import SinkSettings

_log = logging.getLogger("oxbus.spark")

_CHUNK_BYTES = 8 << 20
"""Bytes per call to the broker."""


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """The result of one task, for the commit."""

    rows: int
    sink_id: str = ""
    """The sink that commits the stages; empty if the rows were sent at once."""
    query_id: str = ""
    stage_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskWriter:
    """Writes the rows of a task to their targets; pickled into the tasks."""

    settings: SinkSettings
    columns: list[str]
    target: Target | None

    def send(self, batches: Iterable[pa.RecordBatch]) -> TaskCommit:
        """Send rows at once; a retried task sends them again."""
        client = self.settings.connection.client()
        rows = 0
        for entity, chunk in self._chunks(client, batches):
            client.send(entity, chunk)
            rows += chunk.num_rows
        return TaskCommit(rows)

    def stage(self, batches: Iterable[pa.RecordBatch], sink_id: str, query_id: str, attempt: str) -> TaskCommit:
        """Stage rows under ids that are unique to the attempt: its batch, task and number."""
        client = self.settings.connection.client()
        # The broker reads sink, query and batch from it: see docs/bulk.md.
        prefix = "/".join(name.replace("%", "%25").replace("/", "%2F") for name in (sink_id, query_id))
        ids: list[str] = []
        rows = 0
        try:
            for entity, chunk in self._chunks(client, batches):
                ids.append(f"{prefix}/{attempt}/{uuid.uuid4().hex}")
                rows += client.stage(entity, ids[-1], chunk)
        except AWAY:
            # It was waited for already; the commit of the batch removes these stages.
            raise
        except BaseException:
            with contextlib.suppress(ServiceBusError):
                client.abort_stages(sink_id, query_id, 0, ids)
            raise
        return TaskCommit(rows, sink_id, query_id, tuple(ids))

    def _chunks(self, client: BulkClient, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        """Collect rows by target into chunks large enough for one call."""
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
    """The number of partitions of each entity, requested once."""

    def __init__(self, client: BulkClient) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, entity: str) -> int:
        self[entity] = partitions_of(self._client, entity)
        return self[entity]


def target_of(settings: SinkSettings) -> Target | None:
    """Look the target up, so that a missing one is reported before any task runs.

    Raises:
        MessagingEntityNotFoundError: The entity does not exist.
    """
    if settings.entity is None:
        return None
    return Target(settings.entity, partitions_of(settings.connection.client(), settings.entity))


def commit(settings: SinkSettings, messages: Iterable[TaskCommit | None], batch: int) -> None:
    """Publish the staged rows of a batch: all of them or, if the batch was committed before, none."""
    staged = [message for message in messages if message is not None and message.sink_id]
    if not staged:
        return
    ids = [stage_id for message in staged for stage_id in message.stage_ids]
    rows = sum(message.rows for message in staged)
    began = time.monotonic()
    sink = staged[0].sink_id
    client = settings.connection.client()
    if client.commit_stages(sink, staged[0].query_id, batch, ids):
        millis = round(1000 * (time.monotonic() - began))
        _log.info("sink %s: batch %d is committed: rows=%d commitMillis=%d", sink, batch, rows, millis)
    else:
        _log.warning(
            "sink %s: batch %d was committed before, so its rows are dropped: replaysDropped=%d", sink, batch, rows
        )


def abort(settings: SinkSettings, messages: Iterable[TaskCommit | None], batch: int) -> None:
    """Discard the staged rows of a batch unless it is committed: Spark also aborts when in doubt."""
    staged = [message for message in messages if message is not None and message.sink_id]
    if staged:
        ids = [stage_id for message in staged for stage_id in message.stage_ids]
        client = settings.connection.client()
        client.abort_stages(staged[0].sink_id, staged[0].query_id, batch, ids)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch so that no piece is much larger than one call should be."""
    if rows.nbytes <= _CHUNK_BYTES or rows.num_rows <= 1:
        yield rows
        return
    length = max(1, rows.num_rows * _CHUNK_BYTES // rows.nbytes)
    for start in range(0, rows.num_rows, length):
        yield rows.slice(start, length)
