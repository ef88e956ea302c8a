# SPDX-License-Identifier: Apache-2.0
"""The table of the clients for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import P50, RATE
from targets import AZURE, OURS

from reporting.about import about
from reporting.style import short
from reporting.tables import table

if TYPE_CHECKING:
    from results_file import Row, Run

SUITE = "client"
RATES = {"single": "one at a time", "lists": "lists of 100", "tasks": "64 receivers of asyncio", "arrow": "Arrow, rows"}


def clients(run: Run) -> list[str]:
    """Both clients, and how many times as fast ours is."""
    lines = []
    for shape, name in RATES.items():
        rows = _rows(run, shape)
        ours, theirs = rows[OURS], rows.get(AZURE)
        lines.append(
            [
                name,
                short(ours[RATE]),
                short(theirs[RATE]) if theirs else "has none",
                f"{ours[RATE] / theirs[RATE]:.1f}" if theirs else "",
                f"{ours['client_us_per_message']:.1f}",
                f"{theirs['client_us_per_message']:.0f}" if theirs else "",
            ]
        )
    late = _rows(run, "latency")
    waits = ", ".join(f"{late[name][P50]:.0f} µs with {name}" for name in (OURS, AZURE))
    head = [
        "1 KiB, in memory, settlements confirmed",
        "oxbus, msg/s",
        "azure-servicebus, msg/s",
        "ratio",
        "processor of oxbus, µs per message",
        "of azure-servicebus",
    ]
    return [
        about(run, SUITE),
        "",
        *table(head, lines),
        "",
        f"From a send until another thread has the body (p50): {waits}.",
    ]


def _rows(run: Run, shape: str) -> dict[str, Row]:
    return {row.contender: row for row in run.of(f"client_{shape}/1KiB/memory")}
