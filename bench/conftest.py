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

        def prepare() -> tuple[tuple[Any], dict[str, Any]]:
            while states:
                case.dispose(states.pop())
            states.append(case.prepare())
            return (states[-1],), {}

        benchmark.group = case.id
        benchmark.extra_info["contender"] = case.contender
        benchmark.extra_info["operations"] = case.operations
        answers: list[Any] = []

        def timed(state: Any) -> None:
            answers.append(case.run(state))

        benchmark.pedantic(timed, setup=prepare, rounds=ROUNDS, warmup_rounds=1)
        case.check(states[-1], answers[-1])
        case.dispose(states.pop())
        benchmark.extra_info["throughput_msg_per_s"] = case.operations / benchmark.stats.stats.median

    return run
