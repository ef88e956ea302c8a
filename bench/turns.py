# SPDX-License-Identifier: Apache-2.0
"""Servers in turn: each is measured once in a round, and the order turns around from round to round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from peers.contract import UnavailableError
from targets import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from record import Record

Figures = dict[str, float]


class Named(Protocol):
    """A kind of server."""

    name: ClassVar[str]


Kind = TypeVar("Kind", bound=Named)


@dataclass
class Turns:
    """What the rounds found, by bench id and contender."""

    rounds: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)

    def about(self) -> dict[str, object]:
        """Who took part, and who could not and why."""
        return {"versions": self.versions, "unavailable": self.unavailable}

    def of(self, bench_id: str, figure: str) -> dict[str, list[float]]:
        """A figure of one bench id, round by round, for each contender that has it."""
        return {
            name: [row[figure] for row in rows]
            for (its_id, name), rows in self.rounds.items()
            if its_id == bench_id and figure in rows[0]
        }

    def note(self, record: Record, sync_mode: str) -> None:
        """Put everything into the record."""
        for (bench_id, name), rows in self.rounds.items():
            figures = {figure: [row[figure] for row in rows] for figure in rows[0]}
            record.add(bench_id, name, figures, sync_mode=sync_mode)


def in_turns(
    kinds: Iterable[type[Kind]],
    only: str,
    rounds: int,
    place: Path,
    one_round: Callable[[type[Kind], Path], tuple[dict[str, Figures], str]],
) -> Turns:
    """Measure ours and those whose name has `only`; whoever cannot run is left out, with the reason."""
    found = Turns()
    taking_part = [kind for kind in kinds if kind.name == OURS or only.lower() in kind.name.lower()]
    for number in range(rounds):
        for kind in taking_part if number % 2 == 0 else reversed(taking_part):
            if kind.name in found.unavailable:
                continue
            try:
                figures, found.versions[kind.name] = one_round(kind, place)
            except (UnavailableError, ImportError) as error:
                found.unavailable[kind.name] = str(error)
                print(f"not available here: {kind.name}: {error}", flush=True)
                continue
            for bench_id, one in figures.items():
                found.rounds.setdefault((bench_id, kind.name), []).append(one)
        print(f"round {number + 1} of {rounds} is done", flush=True)
    return found
