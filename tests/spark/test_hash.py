# SPDX-License-Identifier: Apache-2.0
"""Spark, the package `xxhash` and oxbus agree on the partition of a key."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import oxbus
import pytest
import xxhash
from oxbus.spark import partition_id
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = [1, 7, 16, 1000]
KEYS = 500


def independent(key: bytes, partitions: int) -> int:
    """The rule, with another implementation of the hash."""
    unsigned = xxhash.xxh64_intdigest(key, seed=42)
    signed = unsigned - 2**64 if unsigned >= 2**63 else unsigned
    return signed % partitions


def byte_keys() -> list[bytes]:
    """Random bytes of every short length and some long ones."""
    rng = random.Random(42)
    return [b"", *(rng.randbytes(number % 130) for number in range(KEYS)), rng.randbytes(1023), rng.randbytes(65536)]


def text_keys() -> list[str]:
    """Random text from the whole of Unicode."""
    rng = random.Random(43)
    alphabet = "aZ0-_/. éß日本語😀\x00\u0301\U0010ffff"
    return ["", "a", "key-0", "orders/42", *("".join(rng.choices(alphabet, k=n % 70)) for n in range(KEYS))]


def frame(spark: SparkSession, keys: list[bytes] | list[str] | list[str | None], kind: str) -> DataFrame:
    """A frame of one column `k`, in order."""
    rows = [(number, bytearray(key) if isinstance(key, bytes) else key) for number, key in enumerate(keys)]
    return spark.createDataFrame(rows, f"place int, k {kind}").orderBy("place")


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("kind", ["binary", "string"])
def test_all_hashes_agree(spark: SparkSession, kind: str, partitions: int) -> None:
    """Spark's own hash, the Catalyst expression, `partition_id`, `partition_ids` and `xxhash` return the same value."""
    keys: list[bytes] | list[str] = byte_keys() if kind == "binary" else text_keys()
    rows = (
        frame(spark, keys, kind)
        .select(
            sf.expr(f"CAST(pmod(xxhash64(CAST(k AS BINARY)), {partitions}) AS INT)").alias("plain"),
            partition_id("k", partitions).alias("by_name"),
            partition_id(sf.col("k"), partitions).alias("by_column"),
        )
        .collect()
    )
    wanted = [independent(key if isinstance(key, bytes) else key.encode(), partitions) for key in keys]
    assert [row.plain for row in rows] == wanted
    assert [row.by_name for row in rows] == wanted
    assert [row.by_column for row in rows] == wanted
    assert [oxbus.partition_id(key, partitions) for key in keys] == wanted
    assert oxbus.partition_ids(keys, partitions).to_pylist() == wanted


def test_null_key_has_no_partition(spark: SparkSession) -> None:
    """Spark returns the seed for a null; the expression returns null, as `partition_ids` does."""
    keys = ["a", None, "", None]
    found = [row.p for row in frame(spark, keys, "string").select(partition_id("k").alias("p")).collect()]
    assert found == [12, None, 4, None]
    assert oxbus.partition_ids(keys).to_pylist() == found


def test_result_is_an_int_column(spark: SparkSession) -> None:
    """The expression has the type that `repartitionById` requires."""
    schema = frame(spark, ["a"], "string").select(partition_id("k").alias("p")).schema
    assert schema["p"].dataType.simpleString() == "int"


def test_collation_does_not_change_the_partition(spark: SparkSession) -> None:
    """A collated string is hashed as its bytes."""
    row = spark.sql("SELECT 'ABC' COLLATE UTF8_LCASE AS k").select(partition_id("k").alias("p")).collect()[0]
    assert row.p == independent(b"ABC", 16)


@pytest.mark.parametrize("kind", ["int", "bigint", "double", "date", "boolean", "array<string>"])
def test_other_key_types_are_refused(spark: SparkSession, kind: str) -> None:
    """The bytes of a number hash differently from its digits, so the query fails with an error about the key."""
    numbers = spark.createDataFrame([(None,)], f"k {kind}")
    with pytest.raises(PySparkException, match=r"(?i)must be string or binary, not|cast"):
        numbers.select(partition_id("k")).collect()


@pytest.mark.parametrize("partitions", [0, -1, 65_536])
def test_partition_count_out_of_range_is_refused(spark: SparkSession, partitions: int) -> None:  # noqa: ARG001 -- columns need a session
    """The count has the range that `oxbus.partition_id` accepts."""
    with pytest.raises(ValueError, match="partitions must be between"):
        partition_id("k", partitions)


def test_argument_must_be_a_column(spark: SparkSession) -> None:  # noqa: ARG001 -- columns need a session
    """Only a column or its name is accepted."""
    with pytest.raises(TypeError, match="column must be a Column or the name of a column; got int"):
        partition_id(7)
