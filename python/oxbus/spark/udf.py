# SPDX-License-Identifier: Apache-2.0
"""The partition of a key as a Python UDF.

`oxbus.spark.partition_id` computes the same numbers inside Spark, several times as fast. The UDFs are for plans that
need a Python function, and for comparing the two.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from pyspark.sql import functions as sf

import oxbus

if TYPE_CHECKING:
    from pyspark.sql import Column


def _check(partitions: SupportsIndex) -> int:
    count = operator.index(partitions)
    oxbus.partition_id(b"", count)  # raises ValueError if out of range
    return count


def partition_id_udf(column: Column | str, partitions: SupportsIndex = 16) -> Column:
    """Build the expression for the partition of a key as a pandas UDF.

    Args:
        column: The key, a column or the name of one; its type is string or binary.
        partitions: Number of partitions, 1 to 65,535.

    Returns:
        An INT column that equals `oxbus.partition_id(key, partitions)`; null where the key is null.

    Raises:
        TypeError: `partitions` is not an integer.
        ValueError: `partitions` is out of range.

    Keys of another type make the query fail when it runs.
    """
    import pandas as pd  # noqa: PLC0415 -- as in PySpark: only this function needs pandas
    import pyarrow as pa  # noqa: PLC0415

    count = _check(partitions)

    def place(keys: Any) -> Any:
        numbers = pa.array(oxbus.partition_ids(pa.array(keys, from_pandas=True), count))
        return numbers.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)

    place.__annotations__ = {"keys": pd.Series, "return": pd.Series}
    return sf.pandas_udf(place, "int")(column)


def partition_id_arrow_udf(column: Column | str, partitions: SupportsIndex = 16) -> Column:
    """Build the expression for the partition of a key as an Arrow UDF, which hashes the keys in place.

    Args:
        column: The key, a column or the name of one; its type is string or binary.
        partitions: Number of partitions, 1 to 65,535.

    Returns:
        An INT column that equals `oxbus.partition_id(key, partitions)`; null where the key is null.

    Raises:
        NotImplementedError: This PySpark has no Arrow UDFs; 4.1 and newer have.
        TypeError: `partitions` is not an integer.
        ValueError: `partitions` is out of range.

    Keys of another type make the query fail when it runs.
    """
    import pyarrow as pa  # noqa: PLC0415

    count = _check(partitions)
    arrow_udf = getattr(sf, "arrow_udf", None)
    if arrow_udf is None:
        raise NotImplementedError("this PySpark has no Arrow UDFs; use partition_id_udf, or PySpark 4.1 or newer")

    def place(keys: Any) -> Any:
        return pa.array(oxbus.partition_ids(keys, count))

    place.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    return arrow_udf(place, "int")(column)
