# SPDX-License-Identifier: Apache-2.0
"""Settling single messages of a batch in another way than completing them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from oxbus.spark.source.connection import Connection, connection_of
from oxbus.spark.source.options import connection_options
from oxbus.spark.source.retries import retry_without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

Outcome: TypeAlias = Literal["abandon", "complete", "dead_letter", "defer"]

_COLUMNS = ("queue", "reservation_id", "sequence_number")
_OUTCOMES = ("abandon", "complete", "dead_letter", "defer")


def settle(
    df: DataFrame,
    outcome: Outcome,
    options: Mapping[str, str],
    *,
    reason: str | None = None,
    description: str | None = None,
) -> int:
    """Settle the messages of a frame now; for use in `foreachBatch`.

    All other messages are completed when the batch is done. A batch that is retried after a failure no longer contains
    the settled messages.

    Args:
        df: Messages of a stream in peekLock mode, with the columns `queue`, `reservation_id` and `sequence_number`.
        outcome: ``"dead_letter"``, ``"defer"``, ``"abandon"`` (the message is available again at once) or
            ``"complete"``.
        options: How to reach the broker, as for `format("oxbus")`: `connectionString` or its alternatives.
        reason: Why messages are dead-lettered.
        description: What went wrong before they were dead-lettered.

    Returns:
        The number of messages settled by this call.

    Raises:
        ValueError: A column is missing, or `outcome` or an option is wrong.
    """
    if outcome not in _OUTCOMES:
        raise ValueError(f"outcome must be one of {', '.join(_OUTCOMES)}: `{outcome}`")
    if outcome != "dead_letter" and (reason is not None or description is not None):
        raise ValueError("reason and description are for dead_letter only")
    missing = [name for name in _COLUMNS if name not in df.columns]
    if missing:
        raise ValueError(f"column {missing[0]} is missing; settle needs {', '.join(_COLUMNS)} of the stream")
    settler = _settler(connection_of(connection_options(options)), outcome, reason, description)
    counted = df.select(*_COLUMNS).mapInArrow(settler, "settled bigint").collect()
    return sum(row.settled for row in counted)


def _settler(
    connection: Connection, outcome: Outcome, reason: str | None, description: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def settle_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        client = connection.client()
        for batch in batches:
            groups: dict[tuple[str, str], list[int]] = defaultdict(list)
            for queue, reservation, number in zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True):
                if reservation is None:
                    raise ValueError("column reservation_id is null: a browsing stream has nothing to settle")
                groups[queue, reservation].append(number)
            settled = 0
            for (queue, reservation), numbers in groups.items():
                epoch, reservation_id = reservation.split(":", 1)
                details: dict[str, Any] = {} if outcome != "dead_letter" else {
                    "reason": reason, "description": description,
                }  # fmt: skip
                settled += retry_without_effect(
                    client.settle_reserved, queue, reservation_id, int(epoch), numbers, outcome, **details
                )
            yield pa.record_batch({"settled": pa.array([settled], pa.int64())})

    return settle_batches
