# SPDX-License-Identifier: Apache-2.0
"""Many senders of one connection to a server whose store takes its time: their calls wait at once.

Each sends one message after the other. The time of an answer is that of a region, so the rate is bounded by how many
calls the server lets wait.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from metrics import RATE
from oxbus import ServiceBusMessage
from oxbus.aio import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from stored_server import KEY, LOOPBACK, StoredServer
from turns import Found

from stored.bills import name_with_delay
from stored.counts import counted
from stored.scale import BODIES, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plan import Plan

    from stored.places import Place

LINKS = 500
CASE = f"send/1KiB/stored_{LINKS}_links"
SECONDS = 10.0
WARM_SECONDS = 2.0
QUEUE = "orders"


def figures(place: Place, delay: float, plan: Plan) -> Iterator[Found]:
    """The rate, how long a send takes, and how many threads the server has meanwhile."""
    with place.run() as empty, counted(place, empty, delay) as (through, _):
        with through.open() as namespace:
            ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
        with StoredServer(through, standby=False) as server:
            server.wait_until_serving()
            connection = f"Endpoint=sb://{LOOPBACK}:{server.port}/;{KEY}"
            folder = Path(f"/proc/{server.process.pid}/task")

            def threads() -> int:
                return sum(1 for _ in folder.iterdir())

            took, most, seconds = asyncio.run(_load(connection, threads, seconds_of(plan, SECONDS)))
    found = {RATE: len(took) / seconds, "threads": float(most)}
    yield Found(CASE, name_with_delay(place, delay), found, place.level.value, samples=took)


async def _load(connection: str, threads: Callable[[], int], seconds: float) -> tuple[list[float], int, float]:
    """The times of the sends in microseconds, the most threads of the server, and how long it took."""
    took: list[float] = []
    most = 0
    began, end = 0.0, float("inf")

    async def send(client: ServiceBusClient, body: bytes) -> None:
        async with client.get_queue_sender(QUEUE) as sender:
            while (start := time.perf_counter()) < end:
                await sender.send_messages(ServiceBusMessage(body))
                if start >= began > 0:
                    took.append((time.perf_counter() - start) * 1e6)

    async with ServiceBusClient.from_connection_string(connection) as client:
        senders = [asyncio.create_task(send(client, BODIES[n % len(BODIES)])) for n in range(LINKS)]
        await asyncio.sleep(WARM_SECONDS)
        began = time.perf_counter()
        end = began + seconds
        while time.perf_counter() < end:
            most = max(most, threads())
            await asyncio.sleep(0.1)
        await asyncio.gather(*senders)
    return took, most, seconds
