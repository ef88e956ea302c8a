# SPDX-License-Identifier: Apache-2.0
"""Many threads that send at once at the level `fsync`, beside one, and beside the disk's bandwidth."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import oxbus
from bodies import bodies_of
from cases.bus import BATCH
from cases.case import expect
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = "bench"
WARM_UP_LISTS = 16


def one_by_one(directory: Path, threads: int, messages: int, *, partitioned: bool = True) -> float:
    """Return messages per second that `threads` threads send one by one, 100 bytes each."""
    bodies = bodies_of(100, messages)

    def send(sender: oxbus.ServiceBusSender, side: int) -> None:
        for body in bodies[side::threads]:
            sender.send_messages(ServiceBusMessage(body))

    return _rate(directory, threads, messages, send, partitioned=partitioned)


def by_hundred(directory: Path, threads: int, messages: int, body_bytes: int) -> float:
    """Return messages per second that `threads` threads send in lists of 100."""
    bodies = bodies_of(body_bytes, messages)

    def send(sender: oxbus.ServiceBusSender, side: int) -> None:
        for start in range(side * BATCH, messages, threads * BATCH):
            sender.send_messages([ServiceBusMessage(body) for body in bodies[start : start + BATCH]])

    return _rate(directory, threads, messages, send)


def _rate(
    directory: Path,
    threads: int,
    messages: int,
    send: Callable[[oxbus.ServiceBusSender, int], None],
    *,
    partitioned: bool = True,
) -> float:
    with tempfile.TemporaryDirectory(dir=directory) as folder, oxbus.Namespace(Path(folder) / "namespace") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue(QUEUE, enable_partitioning=partitioned)
        client = ServiceBusClient(namespace)
        senders = [client.get_queue_sender(QUEUE) for _ in range(threads)]
        for _ in range(WARM_UP_LISTS):  # the first files are made now
            senders[0].send_messages([ServiceBusMessage(b"warm up") for _ in range(BATCH)])
        ready = threading.Barrier(threads + 1)

        def run(side: int) -> None:
            ready.wait()
            send(senders[side], side)

        workers = [threading.Thread(target=run, args=(side,)) for side in range(threads)]
        for worker in workers:
            worker.start()
        ready.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - began
        stored = admin.get_queue_runtime_properties(QUEUE).total_message_count
        expect("messages stored", stored, messages + WARM_UP_LISTS * BATCH)
        client.close()
    return messages / seconds
