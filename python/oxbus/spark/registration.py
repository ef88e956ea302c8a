# SPDX-License-Identifier: Apache-2.0
"""Making `format("oxbus")` known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Make `format("oxbus")` known to a session.

    Spark finds it by itself where oxbus is installed. It does not when any other module named ``pyspark_…`` cannot be
    imported, and not before oxbus was installed on the driver; then this helps.

    Args:
        spark: The session; other sessions of the same Spark need a call of their own.
    """
    from oxbus.spark.source.data_source import OxbusDataSource  # noqa: PLC0415 -- only who reads or writes needs it

    try:
        spark.dataSource.register(OxbusDataSource)
    except AnalysisException as error:
        if error.getCondition() != _KNOWN:  # PySpark 4.0 does not replace one that it found by itself
            raise
