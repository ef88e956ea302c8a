# SPDX-License-Identifier: Apache-2.0
"""Our queue in a place: in the program that uses it, or behind `oxbus serve` and its client.

A namespace of four partitions. Messages carry no key, so lists go to the partitions in turn.
"""

from __future__ import annotations

import contextlib
import signal
from importlib import metadata
from typing import TYPE_CHECKING

from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from peers.contract import PerThread, UnavailableError
from peers.oxbus_queue import QUEUE, Ends, OxbusQueue
from stored_server import KEY, LIVENESS_SECONDS, LOOPBACK, StoredPlace, StoredServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PARTITIONS = 4


class StoredQueue(OxbusQueue):
    """A queue whose client is given: that of a namespace in this program, or that of a server."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.version = metadata.version("oxbus")
        self._client = client
        self._ends = PerThread(self._connect, Ends.close)

    def close(self) -> None:
        """Close the client; the namespace is not its own."""
        self._ends.close()
        self._client.close()


def namespace_of(place: StoredPlace, options: Mapping[str, str] | None = None, *, standby: bool = False) -> Namespace:
    """Open the namespace of a place, or create it."""
    if "://" not in place.url:
        return Namespace(place.url, partitions=PARTITIONS)
    storage_options = {**place.options, **(options or {})} or None
    return Namespace(place.url, partitions=PARTITIONS, storage_options=storage_options, standby=standby)


def declare(place: StoredPlace) -> None:
    """Create the namespace with its queue, and close it."""
    with namespace_of(place) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)


@contextlib.contextmanager
def in_this_program(place: StoredPlace, **options: str) -> Iterator[StoredQueue]:
    """A queue of a namespace in this program."""
    with namespace_of(place, options) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
        queue = StoredQueue(ServiceBusClient(namespace))
        try:
            yield queue
        finally:
            queue.close()


@contextlib.contextmanager
def server_of(place: StoredPlace, *, standby: bool = False) -> Iterator[StoredServer]:
    """`oxbus serve` of a place; one that does not stand by accepts connections."""
    with StoredServer(place, standby=standby) as server:
        if not standby:
            try:
                server.wait_until_serving()
            except AssertionError as error:
                raise UnavailableError(f"oxbus serve does not start: {str(error).strip()[-300:]}") from error
        yield server


def stop(server: StoredServer) -> None:
    """Let a server close its namespace."""
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(LIVENESS_SECONDS)


def client_of(port: int) -> ServiceBusClient:
    """Our client of a server, which retries as the tests of a takeover have it."""
    address = f"Endpoint=sb://{LOOPBACK}:{port}/;{KEY}"
    return ServiceBusClient.from_connection_string(
        address, retry_total=100, retry_backoff_factor=0.1, retry_backoff_max=0.5
    )


@contextlib.contextmanager
def behind_a_server(place: StoredPlace) -> Iterator[StoredQueue]:
    """The same behind `oxbus serve`, as a broker's clients use it."""
    declare(place)
    with server_of(place) as server:
        queue = StoredQueue(client_of(server.port))
        try:
            yield queue
        finally:
            queue.close()
            stop(server)
