# SPDX-License-Identifier: Apache-2.0
"""Settles the messages of a task, for `settle`; pickled into the tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from oxbus.spark.source.connection import Connection

Outcome: TypeAlias = Literal["abandon", "complete", "dead_letter", "defer"]

STATE_COLUMN: Final = "oxbus_session_state"

_MESSAGES_PER_CALL = 10_000
"""The messages of a session are in one call, even if there are more."""


@dataclass
class _Session:
    """Messages of one session and the state after them."""

    numbers: list[int] = field(default_factory=list)
    states: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Settler:
    """Settles messages in one way."""

    connection: Connection
    outcome: Outcome
    details: Mapping[str, str | None]

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle rows with `queue`, `reservation_id` and `sequence_number`; yield how many were settled."""
        for batch in batches:
            groups: dict[tuple[str, str], list[int]] = defaultdict(list)
            for queue, reservation, number in _rows(batch, "sequence_number"):
                groups[queue, reservation].append(number)
            yield _count(sum(self._settle(reservation, numbers, {}) for reservation, numbers in groups.items()))

    def sessions(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle rows that also have `session_id` and a state. All rows of a session are in the same task."""
        groups: dict[tuple[str, str], dict[str, _Session]] = defaultdict(dict)
        for batch in batches:
            for queue, reservation, id_, number, state in _rows(batch, "session_id", "sequence_number", STATE_COLUMN):
                session = groups[queue, reservation].setdefault(id_, _Session())
                session.numbers.append(number)
                if state is not None:
                    session.states[number] = state
        settled = 0
        for reservation, found in groups.items():
            numbers: list[int] = []
            states: dict[int, bytes] = {}
            for session in found.values():
                if numbers and len(numbers) + len(session.numbers) > _MESSAGES_PER_CALL:
                    settled += self._settle(reservation, numbers, states)
                    numbers, states = [], {}
                numbers += session.numbers
                states |= session.states
            settled += self._settle(reservation, numbers, states)
        yield _count(settled)

    def _settle(self, group: tuple[str, str], numbers: list[int], states: Mapping[int, bytes]) -> int:
        queue, reservation = group
        epoch, reservation_id = reservation.split(":", 1)
        options: dict[str, Any] = {**self.details, **({"session_states": states} if states else {})}
        client = self.connection.client()
        return client.settle_reserved(queue, reservation_id, int(epoch), numbers, self.outcome, **options)


def _rows(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    for row in zip(*(batch.column(name).to_pylist() for name in ("queue", "reservation_id", *names)), strict=True):
        if row[1] is None:
            raise ValueError("column reservation_id is null: a browsing stream has nothing to settle")
        yield row


def _count(settled: int) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    return pa.record_batch({"settled": pa.array([settled], pa.int64())})
