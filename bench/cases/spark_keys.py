# SPDX-License-Identifier: Apache-2.0
"""`oxbus.spark.partition_id` over 10 M keys beside Spark's own `pmod(xxhash64(key), n)`, in a job on two cores.

The keys are in Spark's memory before the clock starts, and one sum comes back.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import oxbus
import pyarrow as pa
import pyarrow.compute as pc
from oxbus.spark import partition_id
from plan import WHOLE, Plan
from pyspark.sql import functions as sf
from targets import OURS, SPARK_EXPRESSION

from cases.case import Case, expect
from cases.spark_paths import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

KEYS = 10_000_000
PARTITIONS = 16
BENCH_ID = "spark_partition_id/18B/10m"


@cache
def _keys(count: int) -> DataFrame:
    keys = session().range(0, count, 1, 2)
    keys = keys.selectExpr("concat('key-', lpad(cast(id as string), 14, '0')) as key").cache()
    expect("cached keys", keys.count(), count)
    return keys


@cache
def _right_answer(count: int) -> int:
    numbers = pc.utf8_lpad(pa.array(range(count), pa.int64()).cast(pa.string()), 14, "0")
    keys = pc.binary_join_element_wise("key", numbers, "-")
    return int(pc.sum(pa.array(oxbus.partition_ids(keys, PARTITIONS))).as_py())


def _ours() -> Column:
    return partition_id("key", PARTITIONS)


def _theirs() -> Column:
    return sf.pmod(sf.xxhash64("key"), sf.lit(PARTITIONS))


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Ours and Spark's own."""
    count = plan.of(KEYS)

    def case(contender: str, expression: Callable[[], Column]) -> Case:
        def run(keys: DataFrame) -> int:
            return int(keys.agg(sf.sum(expression())).first()[0])

        def check(_keys: DataFrame, answer: int) -> None:
            expect("sum of the partitions", answer, _right_answer(count))

        return Case(BENCH_ID, contender, count, partial(_keys, count), run, check)

    return [case(OURS, _ours), case(SPARK_EXPRESSION, _theirs)]
