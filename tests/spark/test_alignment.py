# SPDX-License-Identifier: Apache-2.0
"""UDFs that return a key's partition, and frames with the partitions of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus.spark import aligned, partition_id, partition_id_arrow_udf, partition_id_udf
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from spark_versions import PYSPARK, since_4_1

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

UDFS = [partition_id_udf, pytest.param(partition_id_arrow_udf, marks=since_4_1)]


@pytest.mark.parametrize("partitions", [7, 16])
@pytest.mark.parametrize("udf", UDFS)
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_udfs_call_the_same_hash(spark: SparkSession, kind: str, udf: Callable[..., Any], partitions: int) -> None:
    """The UDFs agree with the expression and with Python for each key; a null key has no partition."""
    keys = [None if number % 11 == 0 else f"ключ-{number}" * (number % 5) for number in range(500)]
    rows = [(key,) for key in keys]
    frame = spark.createDataFrame(rows, "k string").select(sf.col("k").cast(kind).alias("k"))
    found = frame.select(udf("k", partitions).alias("udf"), partition_id("k", partitions).alias("plain")).collect()
    wanted = [None if key is None else oxbus.partition_id(key, partitions) for key in keys]
    assert [row.udf for row in found] == [row.plain for row in found] == wanted


@pytest.mark.parametrize("udf", UDFS)
def test_udfs_reject_invalid_keys_and_counts(spark: SparkSession, udf: Callable[..., Any]) -> None:
    """A count out of range fails at once, a number as a key when the query runs."""
    for count in (0, 65_536):
        with pytest.raises(ValueError, match="partitions"):
            udf("k", count)
    with pytest.raises(TypeError):
        udf("k", "16")
    with pytest.raises(PySparkException, match="strings or binaries"):
        spark.range(3).select(udf("id")).collect()


@since_4_1
@pytest.mark.parametrize("partitions", [3, 16])
def test_aligned_frame_has_the_partitions_of_the_queue(spark: SparkSession, partitions: int) -> None:
    """Task i has exactly the keys of partition i, and the rows without a key are spread over all tasks."""
    rows = [(None if number % 10 == 0 else f"key-{number % 200}", number) for number in range(2000)]
    frame = spark.createDataFrame(rows, "k string, n int").repartition(4)
    found = aligned(frame, "k", partitions).select("k", "n", sf.spark_partition_id().alias("task")).collect()
    assert sorted(row.n for row in found) == list(range(2000))
    keyed = {(row.k, row.task) for row in found if row.k is not None}
    assert keyed == {(key, oxbus.partition_id(key, partitions)) for key, _ in keyed}
    assert len({row.task for row in found if row.k is None}) == min(4, partitions)


@since_4_1
def test_aligned_refuses_a_key_of_another_type(spark: SparkSession) -> None:
    """The query fails and names the type."""
    with pytest.raises(PySparkException, match=r"BIGINT|bigint"):
        aligned(spark.range(3), "id").collect()
    with pytest.raises(TypeError):
        aligned(spark.range(3), 7)


@pytest.mark.skipif(PYSPARK >= (4, 1), reason="newer versions support it")
def test_unsupported_feature_of_this_spark_is_an_error(spark: SparkSession) -> None:
    """The error names the required version and the alternative."""
    with pytest.raises(NotImplementedError, match=r"4\.1 or newer, or sort by oxbus\.spark\.partition_id"):
        aligned(spark.range(3), "id")
    with pytest.raises(NotImplementedError, match="use partition_id_udf"):
        partition_id_arrow_udf("k")
