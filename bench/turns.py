# SPDX-License-Identifier: Apache-2.0
"""The one interface of everything that is measured: contenders that take turns, round by round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peers.contract import Level, UnavailableError
from percentiles import distribution, figures_of
from results_file import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results_file import Point

Figures = dict[str, float]


@dataclass(frozen=True)
class Found:
    """The result of one round of a contender of a case."""

    case: str
    contender: str
    figures: Figures = field(default_factory=dict)
    level: str = Level.MEMORY.value
    point: Point | None = None
    samples: Sequence[float] = ()
    """Microseconds; the figures are made of them."""


@dataclass(frozen=True)
class Turn:
    """The share of one contender in a round."""

    contender: str
    measure: Callable[[], Iterable[Found]]
    """Raises `UnavailableError` if the contender cannot run here, and `WrongAnswerError` if its answer is wrong."""
    warm_up: Callable[[], object] = lambda: None
    """Runs once, before the first round."""
    rounds_max: int | None = None


@dataclass
class Group:
    """Contenders that are compared with each other."""

    part: str
    turns: Sequence[Turn]
    rounds_max: int | None = None
    """Upper bound for groups that take long or run in separate processes."""
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    disk: dict[str, float | str] = field(default_factory=dict)

    def about(self) -> dict[str, dict[str, Any]]:
        """The contenders that took part, those that could not, and the disk; empty for cases inside this process."""
        if not (self.disk or self.versions or self.unavailable):
            return {}
        return {"disk": self.disk, "versions": self.versions, "unavailable": self.unavailable}


def in_turns(suite: str, group: Group, rounds: int, *, warm: bool = True) -> list[Row]:
    """Measure each contender once in a round; the order turns around from round to round.

    With `warm` each is warmed up first: without, the figures mean nothing.
    """
    rows: dict[tuple[str, str], Row] = {}
    samples: dict[tuple[str, str], list[float]] = {}
    rounds = min(rounds, group.rounds_max or rounds)
    for turn in group.turns if warm else ():
        turn.warm_up()
    for number in range(rounds):
        for turn in group.turns if number % 2 == 0 else reversed(group.turns):
            if turn.contender in group.unavailable or (turn.rounds_max is not None and number >= turn.rounds_max):
                continue
            try:
                for found in turn.measure():
                    row_key = (found.case, found.contender)
                    row = rows.setdefault(row_key, Row(suite, *row_key, found.level, {}, found.point))
                    samples.setdefault(row_key, []).extend(found.samples)
                    figures = {**(figures_of(found.samples) if found.samples else {}), **found.figures}
                    for metric, value in figures.items():
                        row.values.setdefault(metric, []).append(float(f"{value:.6g}"))
            except (UnavailableError, ImportError) as error:
                group.unavailable[turn.contender] = str(error)
                print(f"not available here: {turn.contender}: {error}", flush=True)
        if group.versions:
            print(f"{suite} {group.part}: round {number + 1} of {rounds} is done", flush=True)
    for row_key, row in rows.items():
        row.percentiles = distribution(samples[row_key]) or None
    return list(rows.values())
