# SPDX-License-Identifier: Apache-2.0
"""Common parts of the scenarios after the queue: flights through sessions, and through a topic.

A scenario has its own namespace in memory and starts from the beginning in every run, so a kill does not affect it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from oxbus.demo.checks import Check

SHARE = 0.5
"""Share of the flights in a scenario: half of them prove as much in half the time."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class ScenarioResult:
    """The result of a scenario."""

    checks: list[Check]
    rows: int
    """Received messages, including copies."""
    seconds: float
    """From the first send to the last receive, without the checks."""


def sample(messages: pa.Table) -> pa.Table:
    """Return the flights for scenarios: the first ones, in sending order."""
    return messages.slice(0, round(messages.num_rows * SHARE))


def in_threads(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run all jobs at the same time, each in its own thread.

    Returns:
        The results, in the order of the jobs.

    Raises:
        BaseException: The error of a job; the others end first.
    """
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def run(index: int, job: Callable[[], Result]) -> None:
        try:
            results[index] = job()
        except BaseException as error:  # noqa: BLE001 -- carried to the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(jobs))]
