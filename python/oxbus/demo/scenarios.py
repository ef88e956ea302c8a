# SPDX-License-Identifier: Apache-2.0
"""What the flights do after the queue: a trip through sessions, one through a topic.

A side trip has a namespace in memory of its own and begins anew in every run, so a kill has nothing to do with it.
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
"""How much of the flights makes a side trip: half of the aircraft are as good a proof, and take half the time."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class ScenarioResult:
    """What a side trip found out."""

    checks: list[Check]
    rows: int
    """Messages that were sent and came out again, copies counted."""
    seconds: float
    """From the first send to the last receive, without the checks."""


def sample(messages: pa.Table) -> pa.Table:
    """The flights that make side trips: the first ones, in sending order."""
    return messages.slice(0, round(messages.num_rows * SHARE))


def in_threads(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Do all jobs at the same time, each in a thread of its own.

    Returns:
        What each job returned, in the order of the jobs.

    Raises:
        BaseException: What stopped a job; the others end first.
    """
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def do(place: int, job: Callable[[], Result]) -> None:
        try:
            results[place] = job()
        except BaseException as error:  # noqa: BLE001 -- carried to the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=do, args=each) for each in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[place] for place in range(len(jobs))]
