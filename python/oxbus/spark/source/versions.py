# SPDX-License-Identifier: Apache-2.0
"""Features of the installed PySpark.

The same classes support 4.0, whose data sources have fewer features, and newer versions.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import datasource

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before 4.2
    limits = None


class _MissingBase:
    """Replaces a base class that this PySpark does not have."""


AvailableNow: Any = getattr(limits, "SupportsTriggerAvailableNow", _MissingBase)
"""Base of readers that stop at the end present at the start of a query; 4.2. Without it the query is one batch."""

StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
"""Base of stream writers, which get Arrow batches from 4.1 on and rows before."""

STREAM_WRITES_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")

PUSHES_FILTERS = hasattr(datasource, "Filter")
"""Whether Spark can push filters, from 4.1 on."""


def read_limit(messages: int) -> Any:
    """Return the limit that Spark passes back to `latestOffset`; only 4.2 and newer ask for it."""
    return limits.ReadMaxRows(messages)


def messages_allowed(limit: Any) -> int | None:
    """Return how many messages a limit allows in a batch; None for all."""
    return getattr(limit, "max_rows", None)
