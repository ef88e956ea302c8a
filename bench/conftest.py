# SPDX-License-Identifier: Apache-2.0
"""Runs a case under pytest-benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases.case import Case
    from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 5


@pytest.fixture
def measure(benchmark: BenchmarkFixture) -> Callable[[Case], None]:
    """Measure one case; every round starts from a fresh state and has its answer checked."""

    def run(case: Case) -> None:
        states: list[Any] = []
        answers: list[Any] = []

        def finish() -> None:
            while states:
                case.check(states[-1], answers[-1])
                case.dispose(states.pop())

        def prepare() -> tuple[tuple[Any], dict[str, Any]]:
            finish()
            states.append(case.prepare())
            return (states[-1],), {}

        benchmark.group = case.id
        benchmark.extra_info["contender"] = case.contender
        benchmark.extra_info["operations"] = case.operations

        def timed(state: Any) -> None:
            answers.append(case.run(state))

        pedantic: Any = benchmark.pedantic  # it has no types
        pedantic(timed, setup=prepare, rounds=ROUNDS, warmup_rounds=1)
        finish()
        if benchmark.stats is not None:  # None when benchmarks are switched off
            benchmark.extra_info["throughput_msg_per_s"] = case.operations / benchmark.stats.stats.median

    return run
