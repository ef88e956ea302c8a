# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores, the bare stores and brokers of three nodes, as tables in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import P50, P99, RATE
from stored.bare_puts import CASES as BARE
from stored.bills import BOUND, BOUNDED, LOADS
from stored.counts import KINDS
from stored.failover import KILLED, PAUSED, TERMINATED
from stored.opening import CASES as OPENED
from stored.prices import PRICES
from stored.sends import FOUR_THREADS, ONE_THREAD, RECEIVE, SHARE, SINGLE

from reporting.about import about
from reporting.style import short
from reporting.tables import about_peers, table, unavailable

if TYPE_CHECKING:
    from results_file import Row, Run

SUITE = "stored"
NONE = ""
ENDS = {KILLED: "no acknowledgement after a kill", TERMINATED: "after SIGTERM", PAUSED: "while paused"}


def in_stores(run: Run) -> list[str]:
    """Everything that the run measured."""
    lines = [about(run, SUITE)]
    for part in run.about[SUITE]:
        lines += about_peers(run, SUITE, part) if part == "sends" else []
        lines += unavailable(run, SUITE, part)
    for drawn in (_rates(run), _bare(run), _bounded(run), _requests(run), _dollars(run), _opened(run)):
        lines += ["", *drawn] if drawn else []
    return lines


def _of(run: Run, case: str) -> dict[str, Row]:
    return {row.contender: row for row in run.of(case)}


def _rate(rows: dict[str, Row], name: str) -> str:
    return short(rows[name][RATE]) if name in rows else NONE


def _rates(run: Run) -> list[str]:
    singles = _of(run, SINGLE)
    ends = {text: rows for case, text in ENDS.items() if (rows := _of(run, case))}
    names = dict.fromkeys([*singles, *_of(run, KILLED)])
    lists = [_of(run, case) for case in (ONE_THREAD, FOUR_THREADS, RECEIVE)]
    lines = []
    for name in names:
        row = singles.get(name)
        lines.append(
            [
                name,
                f"{row[P50] / 1e3:.2f} / {row[P99] / 1e3:.2f} ms" if row else NONE,
                *(_rate(rows, name) for rows in lists),
                *(f"{rows[name]['seconds']:.1f} s" if name in rows else NONE for rows in ends.values()),
            ]
        )
    head = ["1 KiB", "one send, p50 / p99", "by 100", "4 threads by 100", "received and completed, 4 threads by 100"]
    return table([*head, *ends], lines) if lines else []


def _bare(run: Run) -> list[str]:
    alone, four = (_of(run, BARE[threads]) for threads in (1, 4))
    lists = {1: _of(run, ONE_THREAD), 4: _of(run, FOUR_THREADS)}
    lines = [
        [
            name,
            f"{row['bytes_created']:,.0f}",
            f"{row[P50] / 1e3:.2f} / {row[P99] / 1e3:.2f} ms",
            f"{four[name][P50] / 1e3:.2f} / {four[name][P99] / 1e3:.2f} ms",
            *(f"{rows[name][SHARE]:.2f}" for rows in lists.values()),
        ]
        for name, row in alone.items()
    ]
    head = ["Bare PUTs", "bytes", "alone, p50 / p99", "four at once, p50 / p99"]
    return table([*head, "share of bare PUT, 1 thread", "share of bare PUT, 4 threads"], lines) if lines else []


def _bounded(run: Run) -> list[str]:
    lines = [
        [name, str(threads), f"{row['objects_per_s']:.1f}", short(row[RATE]), f"{row['ratio_to_wanted']:.2f}"]
        for threads, case in BOUNDED.items()
        for name, row in _of(run, case).items()
    ]
    head = [f"`max_puts_per_second={BOUND}`", "threads by 100", "objects/s, counted", "msg/s", "of bound times lists"]
    return table(head, lines) if lines else []


def _loads(run: Run) -> list[tuple[str, Row]]:
    return [(f"{rate:,}/s, by {size}", row) for case, (rate, size) in LOADS.items() for row in _of(run, case).values()]


def _requests(run: Run) -> list[str]:
    lines = [
        [
            load,
            row.contender,
            f"{short(row[RATE])} / {short(row['completed_msg_per_s'])}",
            f"{row['objects_per_s']:.0f}",
            *(short(row[f"{kind}_per_million"]) for kind in KINDS),
        ]
        for load, row in _loads(run)
    ]
    head = ["Load", "", "sent / completed per s", "objects/s"]
    return table([*head, *(f"{kind} per million messages" for kind in KINDS)], lines) if lines else []


def _dollars(run: Run) -> list[str]:
    lines = [
        [
            load,
            row.contender,
            *(
                f"{row[f'usd_per_million_{price.key}']:.2f} / {row[f'usd_per_month_{price.key}']:,.0f}"
                for price in PRICES
            ),
        ]
        for load, row in _loads(run)
        if row.get(f"usd_per_million_{PRICES[0].key}") is not None
    ]
    head = ["Dollars per million messages / per month", "", *(price.name for price in PRICES)]
    sources = [f"- List price of {price.name}: {price.source}." for price in PRICES]
    return [*table(head, lines), "", *sources] if lines else []


def _opened(run: Run) -> list[str]:
    closed, killed = (_of(run, case) for case in OPENED)
    lines = [
        [name, f"{row['seconds']:.2f} s", f"{killed[name]['seconds']:.2f} s" if name in killed else NONE]
        for name, row in closed.items()
    ]
    return table(["Opening", "after a close", "after a kill"], lines) if lines else []
