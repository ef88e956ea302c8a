# SPDX-License-Identifier: Apache-2.0
"""What one run found, in the order it was measured, and how much each figure varied."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from targets import CEILING, OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from targets import Target

RATE = "throughput_msg_per_s"
OF_CEILING = "ratio_to_ceiling"


@dataclass
class Record:
    """The rows of a result file, printed as they come."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def add(self, bench_id: str, contender: str, rounds: Mapping[str, Sequence[float]], **more: Any) -> None:
        """Note and print the median of each figure over its rounds; `more` goes into the row as it is."""
        medians = {figure: statistics.median(values) for figure, values in rounds.items()}
        empty = {RATE: None, "latency_us_p50": None, "latency_us_p99": None}
        spreads = {figure: round(spread(values), 4) for figure, values in rounds.items()}
        values = {figure: [float(f"{value:.6g}") for value in values] for figure, values in rounds.items()}
        self.rows.append(
            {"id": bench_id, "contender": contender, **empty, **medians, **more, "spread": spreads, "rounds": values}
        )
        shown = "  ".join(f"{name} {_short(value)} ±{50 * spreads[name]:.0f}%" for name, value in medians.items())
        print(f"{bench_id:45} {contender:24} {shown}", flush=True)

    def judge(self, target: Target, found: float) -> None:
        """Note whether a target is met, and what comes after it."""
        self.verdicts.append(target.verdict(found))
        self.rows.append(
            {
                "target": target.text,
                "found": found,
                "wanted": target.wanted,
                "at_least": target.at_least,
                "met": target.met(found),
                "moonshot": target.moonshot,
                "moonshot_met": target.moonshot_met(found),
            }
        )

    def not_judged(self, target: Target, reason: str) -> None:
        """Note that a target could not be measured."""
        self.verdicts.append(f"not measured: {target.text}: {reason}")


def spread(values: Sequence[float]) -> float:
    """Highest less lowest over the median: how far a figure can be trusted."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios within each round, which noise of the machine hits on both sides."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def shares_of_ceiling(rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Each contender's share of the ceiling in the same rounds; empty where there is no ceiling."""
    if CEILING not in rates:
        return {}
    return {name: round(ratio(found, rates[CEILING]), 4) for name, found in rates.items()}


def judge_rates(bench_id: str, rates: Mapping[str, Sequence[float]], targets: Sequence[Target], record: Record) -> None:
    """Judge what the targets say of one bench id."""
    for target in targets:
        ours = rates.get(target.contender or OURS)
        if target.bench_id != bench_id or not ours or target.figure != RATE:
            continue
        if target.peer is None:
            record.judge(target, statistics.median(ours))
        elif target.peer in rates:
            record.judge(target, ratio(ours, rates[target.peer]))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e3 else f"{value:.4g}"
