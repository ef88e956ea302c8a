# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP to a server whose store is slow: many wait at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from oxbus.management import ServiceBusAdministrationClient
from signatures import token
from stored_server import LIVENESS_SECONDS, LOOPBACK, StoredPlace, StoredServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUESTS = 200
"""More than the server has threads for calls."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoredServer]:
    """A server of a queue in a store that takes two objects a second."""
    place = StoredPlace(f"objects://{tmp_path}/slow", {"max_puts_per_second": "2"})
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    with StoredServer(place, standby=False) as server:
        server.wait_until_serving()
        yield server


class Connection:
    """A connection for one request."""

    def __init__(self, port: int) -> None:
        self._host = f"{LOOPBACK}:{port}"
        self._port = port

    async def begin(self, method: str, path: str) -> None:
        """Send a request."""
        signed = token(f"http://{self._host}/q")
        head = f"{method} /q/messages{path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: {signed}\r\n"
        self._reader, self._writer = await asyncio.open_connection(LOOPBACK, self._port)
        self._writer.write(f"{head}Content-Length: 0\r\n\r\n".encode())

    async def status(self) -> int:
        """Wait for the answer."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        self._writer.close()
        return int(head.split()[1])


def test_more_requests_wait_than_the_server_has_threads(server: StoredServer) -> None:
    """Each send is answered and each message received once."""

    async def statuses(method: str, path: str, count: int) -> set[int]:
        connections = [Connection(server.port) for _ in range(count)]
        await asyncio.gather(*(each.begin(method, path) for each in connections))
        return {await each.status() for each in connections}

    async def work() -> None:
        async with asyncio.timeout(LIVENESS_SECONDS):
            assert await statuses("POST", "", REQUESTS) == {201}
            assert await statuses("DELETE", "/head?timeout=30", REQUESTS) == {200}
            assert await statuses("DELETE", "/head?timeout=0", 1) == {204}

    asyncio.run(work())
