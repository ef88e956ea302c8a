# SPDX-License-Identifier: Apache-2.0
"""Tasks of an event loop beside threads, as a table in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import RATE
from results_file import ratio
from targets import ASYNCIO, ASYNCIO_QUEUE, OURS, PEEKLOCK_TASKS, THREADS

from reporting.about import about
from reporting.style import short
from reporting.tables import table

if TYPE_CHECKING:
    from results_file import Run

COLUMNS = {
    "single, 100 B": f"{ASYNCIO}100B/single",
    "by 100, 100 B": f"{ASYNCIO}100B/batch_100",
    "by 100, 1 KiB": f"{ASYNCIO}1KiB/batch_100",
    "64 receivers, 100 B": f"{ASYNCIO}100B/64_receivers",
}
CONTENDERS = {
    "`oxbus.aio`": OURS,
    "oxbus by threads": THREADS,
    "PeekLock by hand, for asyncio": PEEKLOCK_TASKS,
    "`asyncio.Queue`": ASYNCIO_QUEUE,
}


def beside_threads(run: Run) -> list[str]:
    """Rates of all; ours with its ratio to the threads in the same rounds."""
    rows = [[shown, *(_cell(run, case, name) for case in COLUMNS.values())] for shown, name in CONTENDERS.items()]
    return [about(run, "core"), "", *table(["messages per second", *COLUMNS], rows)]


def _cell(run: Run, case: str, contender: str) -> str:
    found = {row.contender: row for row in run.of(case)}
    row, threads = found.get(contender), found.get(THREADS)
    if row is None:
        return ""
    beside = (
        f" ({ratio(row.values[RATE], threads.values[RATE]):.2f})" if threads is not None and contender == OURS else ""
    )
    return short(row[RATE]) + beside
