# SPDX-License-Identifier: Apache-2.0
"""Rows through Spark by each path, beside the same job with nothing behind it; keys; batches of one row."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cases import spark_batches, spark_built_in, spark_cluster, spark_keys, spark_paths
from targets import SPARK_BATCH, SPARK_TARGETS
from turns import Found, Group, Turn

from suites.of_cases import by_id
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cases.case import Case
    from plan import Plan


def _batches(plan: Plan) -> Iterator[Group]:
    """Cost of a batch of one row."""
    batches = plan.of(spark_batches.BATCHES, spark_batches.BATCHES_LEAST)

    def measure_one(contender: str, run: Callable[[int], spark_batches.Progress]) -> Iterator[Found]:
        yield Found(SPARK_BATCH, contender, {"batch_ms": spark_batches.batch_ms(run, batches)})

    if plan.wants("batches", SPARK_BATCH):
        turns = [Turn(name, partial(measure_one, name, run)) for name, run in spark_batches.CONTENDERS.items()]
        yield Group("batches", turns)


def _paths(plan: Plan) -> list[Case]:
    """Each path beside nothing, and beside what Spark has built in."""
    return spark_paths.cases(plan) + spark_built_in.cases(plan)


SUITE = Suite(
    name="spark",
    text="rows through Spark by each path, compared with the same Spark job without oxbus",
    rounds=5,
    parts={
        "paths": partial(by_id, "paths", _paths),
        "keys": partial(by_id, "keys", spark_keys.cases),
        "batches": _batches,
        "cluster": spark_cluster.groups,
    },
    targets=SPARK_TARGETS,
)
