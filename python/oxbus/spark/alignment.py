# SPDX-License-Identifier: Apache-2.0
"""Data frames whose partitions are those of a queue."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex

from pyspark.sql import functions as sf

from oxbus.spark.hashing import partition_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def aligned(df: DataFrame, key: Column | str, partitions: SupportsIndex = 16) -> DataFrame:
    """Shuffle a frame so that its partition i has the rows that oxbus puts into partition i.

    Each task that writes this frame touches one partition of the queue, and rows with the same key stay together.
    Within a task the order is the shuffle's; sort within partitions where order matters.

    Args:
        df: The frame.
        key: The key, a column or the name of one; its type is string or binary.
        partitions: Number of partitions of the queue, 1 to 65,535.

    Returns:
        A frame of that many partitions. Rows without a key are spread by the number of their source partition.

    Raises:
        NotImplementedError: This PySpark cannot place rows by number; 4.1 and newer can.
        TypeError: `key` is neither a column nor a name, or `partitions` is not an integer.
        ValueError: `partitions` is out of range.
    """
    count = operator.index(partitions)
    placed = partition_id(key, count)
    repartition_by_id = getattr(df, "repartitionById", None)
    if repartition_by_id is None:
        raise NotImplementedError(
            "this PySpark cannot place rows by number; use PySpark 4.1 or newer, or sort by oxbus.spark.partition_id"
        )
    keyless = sf.pmod(sf.spark_partition_id(), sf.lit(count))
    result: DataFrame = repartition_by_id(count, sf.coalesce(placed, keyless))
    return result
