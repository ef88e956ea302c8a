# SPDX-License-Identifier: Apache-2.0
"""What this PySpark has. The same classes serve 4.0, whose data sources do less, and newer ones."""

from __future__ import annotations

from typing import Any

from pyspark.sql import datasource

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before 4.2
    limits = None


class _MissingBase:
    """Stands for a base class that this PySpark does not have."""


AvailableNow: Any = getattr(limits, "SupportsTriggerAvailableNow", _MissingBase)
"""Base of readers that stop at what there was when a query started; 4.2. Without it such a query is one batch."""

StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
"""Base of stream writers: Arrow batches from 4.1 on, rows before."""

STREAM_WRITES_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")

PUSHES_FILTERS = hasattr(datasource, "Filter")
"""Spark can hand over filters; from 4.1 on."""


def read_limit(messages: int) -> Any:
    """The limit that Spark hands back to `latestOffset`; asked for by 4.2 and newer only."""
    return limits.ReadMaxRows(messages)


def messages_allowed(limit: Any) -> int | None:
    """How many messages a limit lets a batch have; None for all there are."""
    return getattr(limit, "max_rows", None)
