# SPDX-License-Identifier: Apache-2.0
"""The server beside work queues with protocols of their own, as a table in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics import RATE
from targets import ECHO, ECHO_ASKED
from targets_of_servers import NETWORK_BATCH, NETWORK_SINGLE

from reporting.about import about
from reporting.style import short
from reporting.tables import about_peers, table, unavailable

if TYPE_CHECKING:
    from results_file import Row, Run

SUITE, PART = "network", "queues"


def beside_work_queues(run: Run) -> list[str]:
    """One at a time, and by the hundred."""
    hundreds = {row.contender: row for row in run.of(NETWORK_BATCH)}
    lines = [[row.contender, *_cells(row), *_cells(hundreds[row.contender])[::2]] for row in run.of(NETWORK_SINGLE)]
    head = [
        "1 KiB, a Go client",
        "one at a time, msg/s",
        "p50 / p99 of a cycle, µs",
        "processor, client + server, µs per message",
        "by 100, msg/s",
        "processor, client + server, µs per message",
    ]
    nothing_behind = {ECHO, ECHO_ASKED}
    return [
        about(run, SUITE),
        *about_peers(run, SUITE, PART, nothing_behind),
        "",
        *table(head, lines),
        *unavailable(run, SUITE, PART),
    ]


def _cells(row: Row) -> list[str]:
    client, server = row["client_us_per_message"], row["server_us_per_message"]
    return [
        short(row[RATE]),
        f"{short(row['latency_us_p50'])} / {short(row['latency_us_p99'])}",
        f"{client:.3g} + {server:.3g}",
    ]
