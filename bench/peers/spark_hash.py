# SPDX-License-Identifier: Apache-2.0
"""The partition of each key by Spark's `pmod(xxhash64(k), n)`, one core, job included.

The keys sit in Spark's memory before the clock starts.
The sum of the partitions is the only thing that comes back, so no column is collected.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cases.case import expect
from cases.hashing import KEYS, PARTITIONS, right_answer, text_keys
from oxbus.spark.local import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

COPIES = 10
"""The keys are repeated so that starting a job is a small part of the time."""


def seconds_per_round(rounds: int) -> Iterator[float]:
    """Seconds that each round took for `KEYS * COPIES` keys on one core."""
    with local_session("oxbus bench", master="local[1]") as spark:
        keys = spark.createDataFrame([(key,) for key in text_keys()], "k string").coalesce(1)
        copies = keys.crossJoin(spark.range(COPIES)).select("k").coalesce(1).cache()
        expect("cached keys", copies.count(), KEYS * COPIES)
        summed = copies.selectExpr(f"sum(pmod(xxhash64(k), {PARTITIONS})) AS total")
        wanted = sum(right_answer()) * COPIES
        for round_number in range(rounds + 2):  # the first two compile
            started = time.perf_counter()
            (row,) = summed.collect()
            seconds = time.perf_counter() - started
            expect("sum of partitions", row["total"], wanted)
            if round_number >= 2:
                yield seconds
