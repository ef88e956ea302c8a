# SPDX-License-Identifier: Apache-2.0
"""Judges the rows of a run by the targets."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from results_file import Verdict, ratio
from targets import BEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from results_file import Row
    from targets import Target


class NotMeasuredError(Exception):
    """A target cannot be judged by these rows; the text names the reason."""


def judge(suite: str, targets: Iterable[Target], rows: Sequence[Row], *, everyone: bool = True) -> list[Verdict]:
    """Print and return a verdict for each target whose own figure was measured."""
    verdicts = []
    for target in targets:
        try:
            found = [one for word in target.worst_of if (one := figure(target, word, rows, everyone)) is not None]
        except NotMeasuredError as error:
            print(f"not measured: {target.text}: {error}")
            continue
        if len(found) < len(target.worst_of):
            continue
        worst = min(found) if target.at_least else max(found)
        print(target.verdict(worst))
        met, moonshot_met = target.met(worst), target.moonshot_met(worst)
        verdicts.append(
            Verdict(suite, target.text, worst, target.wanted, target.at_least, met, target.moonshot, moonshot_met)
        )
    return verdicts


def figure(target: Target, word: str, rows: Sequence[Row], everyone: bool) -> float | None:
    """The figure that a target is about; None when the contender did not run the case.

    Raises:
        NotMeasuredError: The peer did not take part.
    """
    row = _row(rows, target.case.format(word), target.contender, target.metric)
    if row is None:
        return None
    ours = row.values[target.metric]
    if target.peer is None:
        return statistics.median(ours)
    theirs = _best(target, row, rows, everyone) if target.peer == BEST else _peer(target, word, rows, len(ours))
    if target.difference:
        return statistics.median(one - other for one, other in zip(ours, theirs, strict=True))
    return ratio(ours, theirs)


def _peer(target: Target, word: str, rows: Sequence[Row], rounds: int) -> list[float]:
    row = _row(rows, (target.peer_case or target.case).format(word), str(target.peer), target.metric)
    if row is None or len(row.values[target.metric]) != rounds:
        raise NotMeasuredError(f"{target.peer} did not take part")
    return row.values[target.metric]


def _best(target: Target, ours: Row, rows: Sequence[Row], everyone: bool) -> list[float]:
    """The best of the others at the level of ours, round by round."""
    others = [
        row.values[target.metric]
        for row in rows
        if row.case == ours.case
        and row.level == ours.level
        and row is not ours
        and len(row.values.get(target.metric, ())) == len(ours.values[target.metric])
    ]
    if not others or not everyone:
        raise NotMeasuredError("not all contenders took part")
    best = max if target.at_least else min
    return [best(one) for one in zip(*others, strict=True)]


def _row(rows: Sequence[Row], case: str, contender: str, metric: str) -> Row | None:
    for row in rows:
        if row.case == case and row.contender == contender and metric in row.values:
            return row
    return None
