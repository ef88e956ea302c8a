# SPDX-License-Identifier: Apache-2.0
"""Processing by session, with the state of Spark's state store."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def by_session(
    df: DataFrame,
    processor: StatefulProcessor,
    schema: StructType | str,
    *,
    output_mode: str = "append",
    time_mode: str = "none",
) -> DataFrame:
    """Process the messages of each session in order, with state that Spark keeps.

    The same as ``df.groupBy("session_id").transformWithStateInPandas(...)``, with the rows of a session in the order of
    their sequence numbers: a shuffle does not keep order.

    Args:
        df: A stream with the columns `session_id` and `sequence_number`.
        processor: Gets the rows of one session in a batch as one pandas frame; Spark pickles it to the tasks.
        schema: The columns of the result.
        output_mode: ``"append"``, ``"update"`` or ``"complete"``.
        time_mode: ``"none"``, ``"processingTime"`` or ``"eventTime"``, for timers.

    Raises:
        ValueError: A column is missing, or the state store of the session cannot hold such state.
        ModuleNotFoundError: The package protobuf is missing, by which PySpark reaches the state.
    """
    if importlib.util.find_spec("google.protobuf") is None:
        raise ModuleNotFoundError("PySpark reaches such state by the package protobuf; pip install protobuf")
    missing = [name for name in ("session_id", "sequence_number") if name not in df.columns]
    if missing:
        raise ValueError(f"column {missing[0]} is missing; by_session needs session_id and sequence_number")
    provider = df.sparkSession.conf.get(_PROVIDER, "")
    if provider != _ROCKS_DB:
        raise ValueError(f"Spark keeps such state only in RocksDB; set {_PROVIDER} to {_ROCKS_DB}")
    grouped = df.groupBy("session_id")
    return grouped.transformWithStateInPandas(_InOrder(processor), schema, output_mode, time_mode)


class _InOrder(StatefulProcessor):
    """A processor that gets the rows of a key in order."""

    def __init__(self, inner: StatefulProcessor) -> None:
        self._inner = inner

    def init(self, handle: Any) -> None:
        self._inner.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        import pandas as pd  # noqa: PLC0415 -- in the worker

        ordered = pd.concat(list(rows)).sort_values("sequence_number", ignore_index=True)
        yield from self._inner.handleInputRows(key, iter([ordered]), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        yield from self._inner.handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        self._inner.handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        self._inner.close()
