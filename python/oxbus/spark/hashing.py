# SPDX-License-Identifier: Apache-2.0
"""The partition of a key as a Catalyst expression.

Spark's `xxhash64` is XXH64 with seed 42, the hash of oxbus, so Spark computes the partition of a key without a UDF.
Three details make the two agree on every key:

- the key is hashed as bytes, hence the cast to binary, except for a plain string, whose bytes Spark hashes anyway;
- the hash is signed, and `pmod` is the modulo that never returns a negative number (`%` truncates);
- `xxhash64(NULL)` is the seed, 42, so a null key is handled before hashing.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from pyspark.sql import Column
from pyspark.sql import functions as sf

_PARTITIONS_MAX = 65_535  # as for `oxbus.partition_id`


def partition_id(column: Column | str, partitions: SupportsIndex = 16) -> Column:
    """Build the expression for the partition that oxbus selects for a key.

    Spark compiles the expression into its generated code; no Python runs per row.

    Args:
        column: The key, a column or the name of one; its type is string or binary.
        partitions: Number of partitions, 1 to 65,535.

    Returns:
        An INT column that equals `oxbus.partition_id(key, partitions)`; null where the key is null, because a message
        without a key goes to the next partition in turn.

    Raises:
        TypeError: `column` is neither a column nor a name, or `partitions` is not an integer.
        ValueError: `partitions` is out of range.

    Spark resolves the type of a column only when it plans the query.
    Keys of another type therefore make the query fail when it runs, with a text that names the type: hashing the bytes
    of a number would disagree with the hash of its digits.

    Source: docs/architecture.md, partition choice.
    """
    count = operator.index(partitions)
    if not 1 <= count <= _PARTITIONS_MAX:
        raise ValueError(f"partitions must be between 1 and {_PARTITIONS_MAX}; got {count}")
    if isinstance(column, str):
        key = sf.col(column)
    elif isinstance(column, Column):
        key = column
    else:
        # For callers without a type checker.
        raise TypeError(f"column must be a Column or the name of a column; got {type(column).__name__}")

    key_type = sf.typeof(key)  # a constant once resolved: the check costs nothing per row
    is_hashable = (key_type == "binary") | sf.startswith(key_type, sf.lit("string")) | (key_type == "void")
    # A plain string is hashed in place; a string with a collation is cast to binary, which copies it.
    hash_of_bytes = sf.when(key_type == "string", sf.xxhash64(key)).otherwise(sf.xxhash64(key.cast("binary")))
    # For a power of two the modulo is the low bits, which no sign changes.
    low_bits = hash_of_bytes.bitwiseAND(sf.lit(count - 1).cast("bigint"))
    placed = low_bits if count & (count - 1) == 0 else sf.pmod(hash_of_bytes, sf.lit(count))
    hashed = placed.cast("int")
    refusal = sf.raise_error(
        sf.concat(sf.lit("oxbus.spark.partition_id: the key must be string or binary, not "), key_type)
    )
    return sf.when(~is_hashable, refusal.cast("int")).when(key.isNull(), sf.lit(None).cast("int")).otherwise(hashed)
