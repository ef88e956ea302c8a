# SPDX-License-Identifier: Apache-2.0
"""Servers that are measured in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import turns
from peers.contract import UnavailableError
from targets import OURS

if TYPE_CHECKING:
    from pathlib import Path


class Ours:
    """The one that takes part in everything."""

    name: ClassVar[str] = OURS


class Other(Ours):
    """A peer."""

    name = "Other Queue"


class Missing(Ours):
    """A peer that does not run here."""

    name = "Missing Queue"


KINDS = (Ours, Other, Missing)


def measured(only: str, rounds: int, place: Path) -> tuple[turns.Turns, list[str]]:
    """Rounds of servers whose figure is the number of their turn."""
    asked: list[str] = []

    def one_round(kind: type[Ours], _place: Path) -> tuple[dict[str, turns.Figures], str]:
        asked.append(kind.name)
        if kind is Missing:
            raise UnavailableError("no such program")
        return {"cycle": {"turn": float(len(asked))}}, "1.0"

    return turns.in_turns(KINDS, only, rounds, place, one_round), asked


def test_order_turns_around_and_who_is_missing_is_asked_once(tmp_path: Path) -> None:
    """What a neighbour leaves behind hits each of two the same number of times."""
    found, asked = measured("", 3, tmp_path)
    assert asked == [OURS, "Other Queue", "Missing Queue", "Other Queue", OURS, OURS, "Other Queue"]
    assert found.of("cycle", "turn") == {OURS: [1, 5, 6], "Other Queue": [2, 4, 7]}
    assert found.about() == {
        "versions": {OURS: "1.0", "Other Queue": "1.0"},
        "unavailable": {"Missing Queue": "no such program"},
    }


def test_one_that_is_asked_for_runs_beside_ours(tmp_path: Path) -> None:
    """A part of a name is enough."""
    _, asked = measured("other", 1, tmp_path)
    assert asked == [OURS, "Other Queue"]
