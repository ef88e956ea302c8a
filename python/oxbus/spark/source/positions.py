# SPDX-License-Identifier: Apache-2.0
"""The begin and the end of a read in each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus.spark.source.entity import counter_of, partition_of, sequence_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from oxbus._oxbus import BulkClient
    from oxbus.spark.source.entity import Entity
    from oxbus.spark.source.settings import SourceSettings
    from oxbus.spark.source.tasks import PartitionSlice

Positions = tuple[int, ...]
"""A counter for each partition."""

_SAMPLE_BYTES = 64 << 10


def first_positions(client: BulkClient, entity: Entity, settings: SourceSettings) -> Positions:
    """Return where reading begins.

    Raises:
        ValueError: An option names a partition or a number that does not exist.
    """
    if settings.start_time is not None:
        positions = _positions_at(client, entity, settings.start_time)
    elif settings.start == "latest":
        positions = entity.ends
    elif isinstance(settings.start, str):
        positions = entity.starts
    else:
        positions = _given(entity, settings.start, "startingOffsets", entity.starts)
        if settings.fail_on_data_loss:
            fail_on_lost(entity, positions)
    return _without_others(entity, settings, positions)


def end_positions(client: BulkClient, entity: Entity, settings: SourceSettings) -> Positions:
    """Return the numbers before which reading ends.

    Raises:
        ValueError: An option names a partition or a number that does not exist.
    """
    if settings.end_time is not None:
        return _positions_at(client, entity, settings.end_time)
    if isinstance(settings.end, str):
        return entity.ends
    return _given(entity, settings.end, "endingOffsets", entity.ends)


def fail_on_lost(entity: Entity, positions: Positions) -> None:
    """Check that the messages from these positions on still exist.

    Raises:
        ValueError: Some of them are gone.
    """
    for partition, (position, start) in enumerate(zip(positions, entity.starts, strict=True)):
        if position < start:
            raise ValueError(
                f"messages before number {sequence_number(partition, start)} of partition {partition} are gone, "
                f"reading was to begin at {sequence_number(partition, position)}: they were settled or expired; "
                f"set failOnDataLoss to false to continue without them: `{entity.path}`"
            )


def average_bytes(client: BulkClient, entity: Entity, begin: Positions, end: Positions) -> int:
    """Estimate the size of a message from a sample of the partition with the most messages."""
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    partition = max(range(entity.partitions), key=lambda it: end[it] - begin[it])
    if end[partition] <= begin[partition]:
        return 1
    page, _ = client.peek(entity.path, partition, sequence_number(partition, begin[partition]), max_bytes=_SAMPLE_BYTES)
    table = pa.RecordBatchReader.from_stream(page).read_all()
    return max(1, table.nbytes // table.num_rows) if table.num_rows else 1


def slices_between(begin: Positions, end: Positions, message_bytes: int) -> list[PartitionSlice]:
    """Return the slices between two positions."""
    from oxbus.spark.source.tasks import PartitionSlice  # noqa: PLC0415

    return [
        PartitionSlice(
            partition,
            ((sequence_number(partition, first), sequence_number(partition, last - 1)),),
            (last - first) * message_bytes,
        )
        for partition, (first, last) in enumerate(zip(begin, end, strict=True))
        if first < last
    ]


def _given(entity: Entity, given: Mapping[int, int], option: str, others: Positions) -> Positions:
    positions = list(others)
    for partition, number in given.items():
        if partition >= entity.partitions:
            raise ValueError(
                f"option {option} names partition {partition}; `{entity.path}` has 0 to {entity.partitions - 1}"
            )
        if partition_of(number) not in {0, partition}:
            raise ValueError(
                f"option {option}: {number} is a number of partition {partition_of(number)}, not of {partition}"
            )
        positions[partition] = counter_of(number)
    return tuple(positions)


def _without_others(entity: Entity, settings: SourceSettings, positions: Positions) -> Positions:
    if settings.partitions is None:
        return positions
    beyond = [partition for partition in sorted(settings.partitions) if partition >= entity.partitions]
    if beyond:
        raise ValueError(
            f"option partitionFilter names partition {beyond[0]}; `{entity.path}` has 0 to {entity.partitions - 1}"
        )
    return tuple(
        position if partition in settings.partitions else _PAST_END for partition, position in enumerate(positions)
    )


_PAST_END = (1 << 48) - 1
"""A position after every message."""


def _positions_at(client: BulkClient, entity: Entity, moment: datetime) -> Positions:
    """Find in each partition the first message that was enqueued at `moment` or later, by binary search."""
    positions = []
    for partition, (first, last) in enumerate(zip(entity.starts, entity.ends, strict=True)):
        low, high = first, last
        while low < high:
            middle = (low + high) // 2
            found = _message_from(client, entity, partition, middle)
            if found is None or found[1] >= moment:
                high = middle
            else:
                low = max(middle, counter_of(found[0])) + 1
        positions.append(low)
    return tuple(positions)


def _message_from(client: BulkClient, entity: Entity, partition: int, counter: int) -> tuple[int, Any] | None:
    """Return number and enqueued time of the first message at or after a position."""
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    page, _ = client.peek(entity.path, partition, sequence_number(partition, counter), max_bytes=1, include_body=False)
    table = pa.RecordBatchReader.from_stream(page).read_all()
    if not table.num_rows:
        return None
    return table["sequence_number"][0].as_py(), table["enqueued_time_utc"][0].as_py()
