# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that speak AMQP: a server in this process, and the unmodified azure-servicebus.

Time is real: the SDK looks at its own clock before it settles a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from oxbus.server import Server


@pytest.fixture
def bus(store: str, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace on the store under test, in real time."""
    options = {"path": tmp_path / "bus", "durability": "os"} if store == "durable" else {}
    with Namespace(**options) as namespace:
        yield namespace


@pytest.fixture
def bus_admin(bus: Namespace) -> ServiceBusAdministrationClient:
    """The administration of `bus`, in process."""
    return ServiceBusAdministrationClient(bus)


@pytest.fixture
def amqp_server(bus: Namespace) -> Iterator[Server]:
    """Serve `bus` on a free port of loopback with the development key."""
    with serve(bus) as server:
        yield server


@pytest.fixture
def sdk_client(amqp_server: Server) -> Iterator[SdkClient]:
    """The unmodified client of azure-servicebus."""
    with SdkClient.from_connection_string(amqp_server.connection_string, retry_total=0) as client:
        yield client


@pytest.fixture(params=[True, False], ids=["partitioned", "plain"])
def entity_options(request: pytest.FixtureRequest) -> dict[str, bool]:
    """Options of an entity: with partitions, and without."""
    return {"enable_partitioning": bool(request.param)}


@pytest.fixture
def orders(bus_admin: ServiceBusAdministrationClient, entity_options: dict[str, bool]) -> str:
    """A queue."""
    bus_admin.create_queue("orders", **entity_options)
    return "orders"
