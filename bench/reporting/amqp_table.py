# SPDX-License-Identifier: Apache-2.0
"""The server beside other brokers that speak AMQP 1.0, as tables in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import RATE
from targets import OURS

from reporting.about import about
from reporting.style import short
from reporting.tables import about_peers, table, unavailable

if TYPE_CHECKING:
    from results_file import Row, Run

SUITE = "amqp"
CYCLE = "amqp_cycle/1KiB/{}_{}"
PACED = "amqp_paced/1KiB/{}"
PING = "amqp_ping/1KiB/{}"
IDLE = "amqp_idle/0B/1000_connections"
START = "amqp_start/0B/serve"
CLIENTS = {"proton": "python-qpid-proton", "azure": "azure-servicebus"}


def beside_brokers(run: Run, level: str) -> list[str]:
    """Everyone at a level, with the compiled client."""
    told, confirmed = (_rows(run, CYCLE.format(level, how)) for how in ("told", "confirmed"))
    paced, pinged, idle = (_rows(run, bench_id.format(level)) for bench_id in (PACED, PING, IDLE))
    lines = []
    for name, row in told.items():
        waited = confirmed.get(name)
        lines.append(
            [
                name,
                short(row[RATE]),
                short(waited[RATE]) if waited else "cannot",
                f"{row['latency_us_p50'] / 1e3:.1f} / {row['latency_us_p99'] / 1e3:.1f}",
                *(
                    f"{short(it[name]['latency_us_p50'])} / {short(it[name]['latency_us_p99'])}"
                    for it in (paced, pinged)
                ),
                f"{row['server_us_per_message']:.0f}",
                *([f"{idle[name]['resident_mib']:.0f} MiB"] if name in idle else []),
            ]
        )
    head = [
        "1 KiB, a Go client",
        "msg/s",
        "settlements confirmed",
        "p50 / p99 at that rate, ms",
        "p50 / p99 at an even pace, µs",
        "p50 / p99 one at a time, µs",
        "processor of the server, µs per message",
        *(["1,000 idle connections"] if idle else []),
    ]
    return [
        about(run, SUITE),
        *about_peers(run, SUITE, level),
        "",
        *table(head, lines),
        *unavailable(run, SUITE, level),
    ]


def clients_in_python(run: Run) -> list[str]:
    """How much of the processor's time is the server's with clients in Python, and how soon it is ready."""
    lines = []
    for client, name in CLIENTS.items():
        if row := _rows(run, CYCLE.format("memory", client)).get(OURS):
            share = f"{100 * row['server_share']:.0f} %"
            lines.append([name, short(row[RATE]), f"{row['client_us_per_message']:.0f}", share])
    head = ["In memory, 1 KiB", "msg/s", "processor of the client, µs per message", "share of the server"]
    start = _rows(run, START).get(OURS)
    ready = (
        [f"`oxbus serve --memory` is ready after {start['ready_ms']:.0f} ms, interpreter included."] if start else []
    )
    return [*table(head, lines), "", *ready]


def _rows(run: Run, bench_id: str) -> dict[str, Row]:
    return {row.contender: row for row in run.of(bench_id)}
