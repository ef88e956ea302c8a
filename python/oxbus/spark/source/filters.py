# SPDX-License-Identifier: Apache-2.0
"""Pushed filters that reduce reading: numbers and partitions restrict the requests, times drop rows early.

Spark evaluates every filter again, so unknown filters can be ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as spark

from oxbus.spark.source.entity import counter_of, partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from oxbus.spark.source.positions import Positions

_COMPARED = {"EqualTo": "==", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<="}
_IN_ARROW = {"==": "equal", ">": "greater", ">=": "greater_equal", "<": "less", "<=": "less_equal"}
_NUMBER_MAX = (1 << 63) - 1


@dataclass
class PushedFilters:
    """The messages that the filters of a query select; initially all."""

    numbers: tuple[int, int] = (0, _NUMBER_MAX)
    """First and last sequence number, inclusive."""
    partitions: frozenset[int] | None = None
    times: list[tuple[str, Any]] = field(default_factory=list)
    """Comparisons with the enqueued time."""

    def add(self, filters: Iterable[Any]) -> None:
        """Apply the supported ones of these filters, which must all hold."""
        for condition in filters:
            match getattr(condition, "attribute", None), self._comparison(condition):
                case ("sequence_number",), (sign, int() as value):
                    self._narrow(sign, value)
                case ("partition_id",), ("==", int() as value):
                    self._only({value})
                case ("partition_id",), ("in", tuple() as values):
                    self._only(set(values))
                case ("enqueued_time_utc",), (sign, value) if sign in _IN_ARROW and getattr(value, "tzinfo", None):
                    self.times.append((sign, value))
                case _:
                    pass

    def positions(self, begin: Positions, end: Positions, *, partitioned: bool) -> tuple[Positions, Positions]:
        """Restrict the begin and the end of a read."""
        low, high = self.numbers
        begins, ends = [], []
        for partition, (first, last) in enumerate(zip(begin, end, strict=True)):
            own = partition if partitioned else 0
            narrow_first = first
            narrow_last = last
            if own < partition_of(low) or own > partition_of(high):
                narrow_last = first
            else:
                if own == partition_of(low):
                    narrow_first = max(first, counter_of(low))
                if own == partition_of(high):
                    narrow_last = min(last, counter_of(high) + 1)
            if self.partitions is not None and partitioned and partition not in self.partitions:
                narrow_last = narrow_first
            begins.append(narrow_first)
            ends.append(narrow_last)
        return tuple(begins), tuple(ends)

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows by enqueued time, if the batch has that column."""
        if not self.times or "enqueued_time_utc" not in batch.schema.names:
            return batch
        import pyarrow as pa  # noqa: PLC0415 -- in the worker
        import pyarrow.compute as pc  # noqa: PLC0415

        for sign, value in self.times:
            column = batch.column("enqueued_time_utc")
            batch = batch.filter(getattr(pc, _IN_ARROW[sign])(column, pa.scalar(value, column.type)))
        return batch

    @staticmethod
    def _comparison(condition: Any) -> tuple[str, Any]:
        if isinstance(condition, spark.In):
            return "in", condition.value
        return _COMPARED.get(type(condition).__name__, ""), getattr(condition, "value", None)

    def _narrow(self, sign: str, value: int) -> None:
        low, high = self.numbers
        if sign in {"==", ">", ">="}:
            low = max(low, value + (sign == ">"))
        if sign in {"==", "<", "<="}:
            high = min(high, value - (sign == "<"))
        self.numbers = (low, high)

    def _only(self, partitions: set[Any]) -> None:
        self.partitions = frozenset(partitions if self.partitions is None else partitions & self.partitions)
