# SPDX-License-Identifier: Apache-2.0
"""The table of the clients for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import P50, RATE
from targets import AZURE, GO, OURS, PROTON

from reporting.about import about
from reporting.style import short
from reporting.tables import table

if TYPE_CHECKING:
    from results_file import Row, Run

SUITE = "client"
RATES = {"single": "one at a time", "lists": "lists of 100", "tasks": "64 receivers of asyncio", "arrow": "Arrow, rows"}
HEAD = [
    "1 KiB, in memory, settlements confirmed; per second",
    *RATES.values(),
    "processor of the client with lists, µs per message",
    "p50 from a send until another thread has the body, µs",
]


def clients(run: Run) -> list[str]:
    """Each client, on a server of its own."""
    lines = []
    for client in (OURS, AZURE, GO, PROTON):
        rates = [short(row[RATE]) if (row := _row(run, shape, client)) else "" for shape in RATES]
        lists, late = _row(run, "lists", client), _row(run, "latency", client)
        processor = f"{lists['client_us_per_message']:.1f}" if lists else ""
        lines.append([client, *rates, processor, f"{late[P50]:.0f}" if late else ""])
    others = "go-amqp and qpid-proton have no lists: up to 100 of their messages are on their way at once."
    return [about(run, SUITE), "", *table(HEAD, lines), "", others]


def _row(run: Run, shape: str, client: str) -> Row | None:
    return next((row for row in run.of(f"client_{shape}/1KiB/memory") if row.contender == client), None)
