# SPDX-License-Identifier: Apache-2.0
"""Contenders that are measured alternately."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import turns
from metrics import P50, P99, RATE
from peers.contract import UnavailableError
from turns import Found, Group, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER, MISSING = "Other Queue", "Missing Queue"


def group_of(asked: list[str], rounds_max: int | None = None) -> Group:
    """Three contenders whose rate is the number of their turn; one of them is not available."""

    def measure(contender: str) -> Iterator[Found]:
        asked.append(contender)
        if contender == MISSING:
            raise UnavailableError("no such program")
        yield Found("cycle", contender, {RATE: float(len(asked))})

    return Group("part", [Turn(name, partial(measure, name)) for name in ("oxbus", OTHER, MISSING)], rounds_max)


def test_order_alternates_and_a_missing_contender_is_tried_once() -> None:
    """The effect of a neighbour hits each of two contenders equally often."""
    asked: list[str] = []
    group = group_of(asked)
    rows = turns.in_turns("suite", group, 3)
    assert asked == ["oxbus", OTHER, MISSING, OTHER, "oxbus", "oxbus", OTHER]
    assert {row.contender: row.values[RATE] for row in rows} == {"oxbus": [1, 5, 6], OTHER: [2, 4, 7]}
    assert group.about() == {"disk": {}, "versions": {}, "unavailable": {MISSING: "no such program"}}


def test_group_and_contender_may_have_fewer_rounds() -> None:
    """Slow measurements run fewer rounds than the rest."""
    asked: list[str] = []
    turns.in_turns("suite", group_of(asked, rounds_max=2), 5)
    assert asked.count(OTHER) == 2
    once = Turn("oxbus", lambda: [Found("cycle", "oxbus", {RATE: 1.0})], rounds_max=1)
    (row,) = turns.in_turns("suite", Group("part", [once]), 5)
    assert row.values == {RATE: [1.0]}


def test_warm_up_is_done_once_and_not_counted() -> None:
    """The first round of a process is slower than the others."""
    warm: list[int] = []
    turn = Turn("oxbus", lambda: [Found("cycle", "oxbus", {RATE: float(len(warm))})], warm_up=lambda: warm.append(1))
    (row,) = turns.in_turns("suite", Group("part", [turn]), 2)
    assert row.values == {RATE: [1.0, 1.0]}
    turns.in_turns("suite", Group("part", [turn]), 1, warm=False)
    assert warm == [1]


def test_samples_become_percentiles_of_each_round_and_of_all() -> None:
    """A round of a distribution has its median and its 99th percentile."""
    samples = iter([[1.0] * 1000, [3.0] * 1000])
    turn = Turn("oxbus", lambda: [Found("wake_up", "oxbus", samples=next(samples))])
    (row,) = turns.in_turns("suite", Group("part", [turn]), 2)
    assert row.values == {P50: [1.0, 3.0], P99: [1.0, 3.0]}
    assert row.percentiles is not None
    assert (row.percentiles["25"], row.percentiles["75"]) == (1.0, 3.0)
