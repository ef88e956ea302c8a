# SPDX-License-Identifier: Apache-2.0
"""Reading the messages of a task page by page, as often as Spark asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus.spark.source.schemas import ADDED_COLUMNS, as_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from oxbus._oxbus import BulkClient
    from oxbus.spark.source.settings import SourceSettings
    from oxbus.spark.source.tasks import Task


def read_task(
    settings: SourceSettings,
    target: pa.Schema,
    task: Task,
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read all messages of a task as batches of the given columns.

    Args:
        settings: The settings of the source.
        target: The columns.
        task: The task.
        keep: Removes rows that the filters exclude. None: keep all.
    """
    client = settings.connection.client()
    constants = {"reservation_id": reservation_text(task), "queue": settings.entity}
    for share in task.shares:
        states = _states(client, settings, target.names, task, share.partition)
        for first, last in share.ranges:
            number: int | None = first
            while number is not None:
                page, number = _page(client, settings, target.names, task, (share.partition, number, last))
                for batch in as_batches(page, target, constants, states):
                    kept = batch if keep is None else keep(batch)
                    if kept.num_rows:
                        yield kept


def reservation_text(task: Task) -> str | None:
    """Return the reservation of a task as one text, which `settle` can split."""
    return None if task.reservation_id is None else f"{task.epoch}:{task.reservation_id}"


def _states(
    client: BulkClient, settings: SourceSettings, columns: list[str], task: Task, partition: int
) -> dict[str, bytes | None]:
    """Return the states of a task's sessions in a partition, if their column is read."""
    if "session_state" not in columns or task.reservation_id is None or not task.has_sessions:
        return {}
    sessions = client.reserved_sessions(settings.entity, task.reservation_id, task.epoch, partition)
    return dict(sessions)


def _page(
    client: BulkClient, settings: SourceSettings, columns: list[str], task: Task, interval: tuple[int, int, int]
) -> tuple[Any, int | None]:
    partition, first, last = interval
    # The number of rows must be known if all columns are constant.
    stored = [name for name in columns if name not in ADDED_COLUMNS] or ["sequence_number"]
    if "session_state" in columns and "session_id" not in stored:
        stored.append("session_id")
    options: dict[str, Any] = {"max_bytes": settings.batch_bytes, "columns": stored}
    if settings.properties_as != "map":
        options["application_properties"] = settings.properties_as
    if task.reservation_id is None:
        return client.peek(settings.entity, partition, first, to_sequence_number=last, **options)
    return client.read(settings.entity, task.reservation_id, task.epoch, partition, first, last, **options)
