# SPDX-License-Identifier: Apache-2.0
"""`oxbus.spark.partition_id` over 10 M keys beside Spark's own `pmod(xxhash64(key), n)`, in a job on two cores.

The keys are in Spark's memory before the clock starts, and one sum comes back.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import oxbus
import pyarrow as pa
import pyarrow.compute as pc
from oxbus.spark import partition_id
from pyspark.sql import functions as sf

from cases.case import Case, expect
from cases.spark_paths import OURS, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

KEYS = 10_000_000
PARTITIONS = 16
BENCH_ID = "spark_partition_id/18B/10m"
SPARK = "Spark's expression"


@cache
def _keys() -> DataFrame:
    keys = session().range(0, KEYS, 1, 2)
    keys = keys.selectExpr("concat('key-', lpad(cast(id as string), 14, '0')) as key").cache()
    expect("cached keys", keys.count(), KEYS)
    return keys


@cache
def _right_answer() -> int:
    numbers = pc.utf8_lpad(pa.array(range(KEYS), pa.int64()).cast(pa.string()), 14, "0")
    keys = pc.binary_join_element_wise("key", numbers, "-")
    return int(pc.sum(pa.array(oxbus.partition_ids(keys, PARTITIONS))).as_py())


def _sum_of(expression: Column) -> int:
    return int(_keys().agg(sf.sum(expression)).first()[0])


def _check(_state: object, found: int) -> None:
    expect("sum of the partitions", found, _right_answer())


def _ours() -> Column:
    return partition_id("key", PARTITIONS)


def _theirs() -> Column:
    return sf.pmod(sf.xxhash64("key"), sf.lit(PARTITIONS))


def _case(contender: str, expression: Callable[[], Column]) -> Case:
    return Case(BENCH_ID, contender, KEYS, _keys, lambda _keys: _sum_of(expression()), _check)


def cases() -> list[Case]:
    """Ours and Spark's own."""
    return [_case(OURS, _ours), _case(SPARK, _theirs)]
