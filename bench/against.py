# SPDX-License-Identifier: Apache-2.0
"""A run beside an earlier one of the same machine: the ratio of each figure, turned so that less than 1 is worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import METRICS, RATE
from results_file import newest_first
from targets import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results_file import Row, Run

LEAST = 0.97
"""A ratio below this is named at the end."""


def newest_like(run: Run) -> Run | None:
    """The newest result of the same machine that has something of this run."""
    for earlier in newest_first():
        if machine_of(earlier) == machine_of(run) and _rows_by_key(earlier).keys() & _rows_by_key(run).keys():
            return earlier
    return None


def machine_of(run: Run) -> tuple[object, ...]:
    """Properties that two runs must share for their rates to be comparable."""
    memory_kib = int(str(run.machine["memory"] or "0").split()[0])
    return run.machine["processor"], run.machine["cores"], round(memory_kib / 2**20)


def ratios(run: Run, earlier: Run) -> Iterator[tuple[Row, str, float]]:
    """For each row and metric that both have: how much better it is now."""
    before = _rows_by_key(earlier)
    for row_key, row in _rows_by_key(run).items():
        if (old := before.get(row_key)) is None:
            continue
        for metric in (metric for metric in row.values if metric in old.values):
            now, then = row[metric], old[metric]
            if min(now, then) > 0:
                yield row, metric, now / then if METRICS[metric].more_is_better else then / now


def text(run: Run, earlier: Run) -> str:
    """Every ratio, beside it that of the shares of the ceiling; then the ratios below `LEAST`."""
    lines = [f"Against {earlier.file} (commit {earlier.commit}); below 1 is worse"]
    if machine_of(run) != machine_of(earlier):
        lines.append("It is of another machine: only the shares of the ceiling mean anything")
    worse = []
    for row, metric, found in ratios(run, earlier):
        line = f"{found:6.3f}  {row.case} by {row.contender}: {metric}{_beside_the_ceiling(row, metric, run, earlier)}"
        lines.append(line)
        if found < LEAST and row.contender.startswith(OURS):
            worse.append(line)
    lines += ["", f"Of oxbus below {LEAST}: {len(worse)}" + ("" if worse else ", nothing"), *worse]
    return "\n".join(lines)


def _beside_the_ceiling(row: Row, metric: str, run: Run, earlier: Run) -> str:
    if metric != RATE:
        return ""
    now, then = run.share_of_ceiling(row), earlier.share_of_ceiling(_rows_by_key(earlier)[_row_key(row)])
    return f"  of the ceiling {now / then:.3f}" if now and then else ""


def _rows_by_key(run: Run) -> dict[tuple[str, str, str, str], Row]:
    return {_row_key(row): row for row in run.rows}


def _row_key(row: Row) -> tuple[str, str, str, str]:
    return row.suite, row.case, row.contender, row.level
