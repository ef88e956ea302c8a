# SPDX-License-Identifier: Apache-2.0
"""The lines of a table or a plot about the run that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import RATE

if TYPE_CHECKING:
    from results_file import Row, Run


def about(run: Run, suite: str) -> str:
    """Return one line: when and where the run took place, and how quiet the machine was."""
    machine, noise = run.machine, run.noise
    stolen = f", {100 * noise['stolen_share']:.1f} % of the time stolen by other guests" if noise else ""
    load = f", load {machine['load_before']:.1f} before"
    return (
        f"`bench/results/{run.file}`: commit `{run.commit}`, {machine['processor']}, "
        f"{machine['cores']} cores, Python {machine['python']}, {run.rounds[suite]} rounds{load}{stolen}."
    )


def spread_of(row: Row, metric: str = RATE) -> tuple[float, float]:
    """How far the lowest and the highest round are from the median."""
    values, middle = row.values[metric], row[metric]
    return max(0.0, middle - min(values)), max(0.0, max(values) - middle)
