# SPDX-License-Identifier: Apache-2.0
"""Registration of `format("oxbus")` in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Register `format("oxbus")` in a session.

    Spark finds the format automatically where oxbus is installed, unless another module named ``pyspark_…`` fails to
    import or oxbus was installed after the driver started.

    Args:
        spark: The session; each session of a Spark application needs its own call.
    """
    from oxbus.spark.source.data_source import OxbusDataSource  # noqa: PLC0415 -- only reads and writes need it

    try:
        spark.dataSource.register(OxbusDataSource)
    except AnalysisException as error:
        if error.getCondition() != _KNOWN:  # PySpark 4.0 does not replace a data source that it discovered
            raise
