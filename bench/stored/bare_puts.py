# SPDX-License-Identifier: Apache-2.0
"""What the bare store takes to create an object of the size that a list of 100 makes: alone, and four at once.

A namespace has up to four objects on their way. So one thread that sends lists has at best a list on its way per bare
creation, and four threads have four lists per creation among four.
"""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from peers.oxbus_queue import QUEUE
from peers.server import LOOPBACK
from turns import Found

from stored.queues import StoredQueue, declare
from stored.requests_of_stores import Creation, creation_of
from stored.scale import BODIES, seconds_of
from stored.threads import together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan

    from stored.places import Place

CASES = {1: "put/object_of_100/stored_alone", 4: "put/object_of_100/stored_4_at_once"}
SECONDS = 2.0
LISTS = 5
WARM = 10
PART_BYTES = 1 << 16


def figures(kind: Place, name: str, level: str, plan: Plan) -> Iterator[tuple[Found, int, float]]:
    """The times of bare creations, by how many are on their way, and the median in seconds."""
    size = object_bytes()
    for threads, case in CASES.items():
        with kind.run() as place:
            declare(place)  # a table of PostgreSQL is made as ours is
            creation = creation_of(kind, place, os.urandom(size))
            samples = times(creation, threads, seconds_of(plan, SECONDS))
        found = Found(case, name, {"bytes_created": size}, level, samples=samples)
        yield found, threads, statistics.median(samples) / 1e6


def object_bytes() -> int:
    """The bytes of the object that a list of 100 makes."""
    with tempfile.TemporaryDirectory() as folder:
        with Namespace(f"objects://{folder}", partitions=4) as namespace:
            ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
            queue = StoredQueue(ServiceBusClient(namespace))
            for _ in range(LISTS):
                queue.send_many(BODIES)
            queue.close()
        least = sum(map(len, BODIES))
        sizes = [file.stat().st_size for file in Path(folder).rglob("lanes/*/*") if file.is_file()]
        return int(statistics.median(size for size in sizes if size >= least))


def times(creation: Creation, threads: int, seconds: float) -> list[float]:
    """Microseconds of creations, each over a connection that is kept."""
    found: list[list[float]] = [[] for _ in range(threads)]

    def create(thread: int) -> tuple[int, float]:
        with socket.create_connection((LOOPBACK, creation.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if creation.hello:
                _ask(connection, creation.hello, creation)
            for _ in range(WARM):
                _ask(connection, creation.request(), creation)
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                request = creation.request()
                began = time.perf_counter()
                _ask(connection, request, creation)
                found[thread].append((time.perf_counter() - began) * 1e6)
            return len(found[thread]), began

    together(threads, lambda: None, create)
    return [one for samples in found for one in samples]


def _ask(connection: socket.socket, request: bytes, creation: Creation) -> None:
    connection.sendall(request)
    answer = b""
    while not creation.answered(answer):
        part = connection.recv(PART_BYTES)
        if not part:
            raise RuntimeError(f"the store ended the connection after {answer[:300]!r}")
        answer += part
