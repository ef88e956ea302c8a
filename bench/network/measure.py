# SPDX-License-Identifier: Apache-2.0
"""One server's share of a round: it is started, warmed up, and does each shape.

Processor time is that of the two processes, their part of the kernel included: the server's by its counter before and
after, the client's from its start to its end, connecting included, which is less than a hundredth of it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import go_client
from cases.bus import BATCH
from cases.case import expect
from targets import NETWORK_BATCH, NETWORK_SINGLE

if TYPE_CHECKING:
    from network.servers import NetworkQueue

Figures = dict[str, float]

PACKAGE = "network/client"
SHAPES = {NETWORK_SINGLE: 1, NETWORK_BATCH: BATCH}
WARM_UP_LISTS = 20
SECONDS = 2.0
MOST = 1_000_000


def one_round(kind: type[NetworkQueue], place: Path) -> tuple[dict[str, Figures], str]:
    """Figures by bench id, and the version."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        queue = kind(Path(folder))
        try:
            return {bench_id: _shape(queue, size) for bench_id, size in SHAPES.items()}, queue.version
        finally:
            queue.close()


def _shape(queue: NetworkQueue, size: int) -> Figures:
    warm = _cycles(queue, size, WARM_UP_LISTS * BATCH)
    count = min(MOST, int(warm["throughput_msg_per_s"] * SECONDS)) // BATCH * BATCH
    return _cycles(queue, size, max(BATCH, count))


def _cycles(queue: NetworkQueue, size: int, count: int) -> Figures:
    """The client checks that each message came once and as it was sent."""
    before = go_client.server_seconds(queue.pid)
    answer = go_client.run(PACKAGE, {**queue.options, "batch": size, "count": count})
    spent = go_client.server_seconds(queue.pid) - before
    expect("messages left", queue.left(), 0)
    return {
        **{name: answer[name] for name in ("throughput_msg_per_s", "latency_us_p50", "latency_us_p99")},
        **go_client.shares(spent, answer["client_cpu_s"], count),
        "processor_us_per_message": (spent + answer["client_cpu_s"]) / count * 1e6,
    }
