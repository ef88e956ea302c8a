# SPDX-License-Identifier: Apache-2.0
"""Lets Spark find `format("oxbus")` automatically: it looks for a `DefaultSource` in every module named `pyspark_…`.

A module among these that cannot be imported keeps Spark from registering any of them. So nothing is imported
here before Spark asks for the class, and without PySpark the class does not exist.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from oxbus.spark.source.data_source import OxbusDataSource  # noqa: PLC0415 -- not before it is needed
        except Exception as error:  # whatever is wrong with it, other sources must be found
            raise AttributeError(f"format('oxbus') cannot be loaded: {error!r}") from error
        return OxbusDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
