# SPDX-License-Identifier: Apache-2.0
"""Creating queues in a directory one after another; each is synced when the call returns."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import oxbus
from cases.case import expect
from oxbus.management import ServiceBusAdministrationClient


def create(directory: Path, queues: int) -> tuple[float, float]:
    """Return how many queues are created per second, and how much longer the last quarter took than the first."""
    quarter = queues // 4
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / "namespace"
        with oxbus.Namespace(path, durability="fsync") as namespace:
            admin = ServiceBusAdministrationClient(namespace)
            admin.create_queue("warm-up")
            times = [time.perf_counter()]
            for number in range(4 * quarter):
                admin.create_queue(f"queue-{number}")
                if (number + 1) % quarter == 0:
                    times.append(time.perf_counter())
        with oxbus.Namespace(path) as namespace:
            found = sum(1 for _ in ServiceBusAdministrationClient(namespace).list_queues())
            expect("queues after the next open", found, 4 * quarter + 1)
    return 4 * quarter / (times[-1] - times[0]), (times[-1] - times[-2]) / (times[1] - times[0])
