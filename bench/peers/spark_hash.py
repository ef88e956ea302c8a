# SPDX-License-Identifier: Apache-2.0
"""The partition of each key by Spark's `pmod(xxhash64(k), n)`, one core, job included; ours beside it.

The keys sit in Spark's memory before the clock starts.
The sum of the partitions is the only thing that comes back, so no column is collected.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import oxbus
from cases.case import Case, expect, seconds_of_one_round
from cases.hashing import KEYS, PARTITIONS, arrow_keys, check, right_answer, text_keys
from oxbus.spark.local import local_session
from targets import OURS, SPARK, SPARK_HASH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan

COPIES = 10
"""The keys are repeated so that starting a job is a small part of the time."""


@contextmanager
def cases(plan: Plan) -> Iterator[list[Case]]:
    """Yield the cases of oxbus and of Spark; the Spark session ends with the context."""
    count = plan.of(KEYS)
    with local_session("oxbus bench", master="local[1]") as spark:
        keys = spark.createDataFrame([(key,) for key in text_keys(count)], "k string").coalesce(1)
        copies = keys.crossJoin(spark.range(COPIES)).select("k").coalesce(1).cache()
        expect("cached keys", copies.count(), count * COPIES)
        summed = copies.selectExpr(f"sum(pmod(xxhash64(k), {PARTITIONS})) AS total")

        def theirs(_state: None) -> Any:
            (row,) = summed.collect()
            return row["total"]

        def check_sum(_state: None, total: int) -> None:
            expect("sum of partitions", total, sum(right_answer(count)) * COPIES)

        def ours(keys: Any) -> Any:
            return oxbus.partition_ids(keys, PARTITIONS)

        by_spark = Case(SPARK_HASH, SPARK, count * COPIES, lambda: None, theirs, check_sum)
        seconds_of_one_round(by_spark)  # two rounds compile: this one, and the one that warms up
        yield [Case(SPARK_HASH, OURS, count, partial(arrow_keys, count), ours, check), by_spark]
