# SPDX-License-Identifier: Apache-2.0
"""One thing to measure: prepare a state, run it against the clock, check the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from results_file import Point


@dataclass(frozen=True)
class Case:
    """A measurement of one contender.

    Cases with the same `id` do the same work and are compared with each other.
    """

    id: str
    """`operation/payload/shape`."""
    contender: str
    """`oxbus`, or the name of a peer."""
    operations: int
    """Messages or keys per round."""
    prepare: Callable[[], Any]
    """Makes a fresh state; not timed."""
    run: Callable[[Any], Any]
    """The timed part; returns its answer."""
    check: Callable[[Any, Any], None]
    """Raises `WrongAnswerError` when the answer is not right."""
    dispose: Callable[[Any], None] = lambda _state: None
    point: Point | None = None
    """None outside of sweeps."""

    def __str__(self) -> str:
        return f"{self.id} by {self.contender}"


class WrongAnswerError(Exception):
    """A benchmark computed something wrong, so its time means nothing."""


def expect(quantity: str, actual: object, wanted: object) -> None:
    """Refuse an answer that is not the wanted one."""
    if actual != wanted:
        msg = f"{quantity}: found {actual!r:.200}, wanted {wanted!r:.200}"
        raise WrongAnswerError(msg)


def seconds_of_one_round(case: Case) -> float:
    """Run one round and check its answer."""
    state = case.prepare()
    try:
        started = time.perf_counter()
        answer = case.run(state)
        seconds = time.perf_counter() - started
        case.check(state, answer)
        return seconds
    finally:
        case.dispose(state)
