# SPDX-License-Identifier: Apache-2.0
"""asyncio with a namespace in a store: many calls wait for the store at once, and none of them is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from oxbus import ServiceBusMessage
from oxbus.aio import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault
from stored_server import LIVENESS_SECONDS, StoredPlace

if TYPE_CHECKING:
    from pathlib import Path

CALLS = 100
"""More than the pool of an event loop has threads, on any machine."""


def waiting() -> list[threading.Thread]:
    """The threads of calls that wait for a store."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("oxbus-store")]


def test_a_hundred_sends_wait_for_a_slow_store_at_once(tmp_path: Path) -> None:
    """While the store does not answer all of them are under way; then each is acknowledged and received once."""

    async def run() -> None:
        async with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("first"))
            for partition in range(namespace.partitions):
                inject_fault(namespace, partition, "stall")
            sends = [asyncio.create_task(sender.send_messages(ServiceBusMessage(str(n)))) for n in range(CALLS)]
            for _ in range(100 * LIVENESS_SECONDS):
                if len(waiting()) == CALLS:
                    break
                await asyncio.sleep(0.01)
            assert len(waiting()) == CALLS
            assert not any(send.done() for send in sends)
            for partition in range(namespace.partitions):
                heal(namespace, partition)
            await asyncio.gather(*sends)
            async with client.get_queue_receiver("q") as receiver:
                found: list[str] = []
                while batch := await receiver.receive_messages(CALLS, max_wait_time=1):
                    found += map(str, batch)
                    await receiver.complete_messages(batch)
        assert sorted(found) == sorted(["first", *map(str, range(CALLS))])

    with StoredPlace(f"objects://{tmp_path}/shop").open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        asyncio.run(run())
    end = time.monotonic() + LIVENESS_SECONDS
    while waiting() and time.monotonic() < end:
        time.sleep(0.01)
    assert not waiting(), "the threads end with their client"
