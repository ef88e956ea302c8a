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
from metrics import P50, P99, RATE
from targets_of_servers import NETWORK_BATCH, NETWORK_SINGLE
from turns import Figures, Found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plan import Plan
    from turns import Group

    from network.servers import NetworkQueue

PACKAGE = "network/client"
SHAPES = {NETWORK_SINGLE: 1, NETWORK_BATCH: BATCH}
WARM_UP = 20 * BATCH
SECONDS = 2.0
MOST = 1_000_000


def one_round(
    kind: type[NetworkQueue], directory: Path, shapes: Mapping[str, int], group: Group, plan: Plan
) -> Iterator[Found]:
    """Results of each case; the version goes to the group."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        queue = kind(Path(folder))
        group.versions[kind.name] = queue.version
        try:
            for case, size in shapes.items():
                yield Found(case, kind.name, _shape(queue, size, plan))
        finally:
            queue.close()


def _shape(queue: NetworkQueue, size: int, plan: Plan) -> Figures:
    warm = _cycles(queue, size, plan.of(WARM_UP, BATCH))
    count = min(MOST, int(warm[RATE] * SECONDS * plan.scale)) // BATCH * BATCH
    return _cycles(queue, size, max(BATCH, count))


def _cycles(queue: NetworkQueue, size: int, count: int) -> Figures:
    """The client checks that each message came once and as it was sent."""
    before = go_client.server_seconds(queue.pid)
    answer = go_client.run(PACKAGE, {**queue.options, "batch": size, "count": count})
    spent = go_client.server_seconds(queue.pid) - before
    expect("messages left", queue.remaining(), 0)
    return {
        **{name: answer[name] for name in (RATE, P50, P99)},
        **go_client.shares(spent, answer["client_cpu_s"], count),
        "processor_us_per_message": (spent + answer["client_cpu_s"]) / count * 1e6,
    }
