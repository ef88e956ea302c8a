# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with SDKs of Azure Service Bus: a server over a namespace, and the clients of azure-servicebus.

The SDKs compare times of the broker with their own clock, so these tests use the system clock; no test measures time.
A test creates its entities in this process unless it tests their creation.

The tests with SDKs, and the samples of one, run with the tiers Standard, which `oxbus serve` has, and Premium.
Tests that use AMQP without an SDK have no tier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import azure_pace
import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from azure.servicebus import ServiceBusReceivedMessage as SdkReceivedMessage
    from azure.servicebus import ServiceBusReceiver as SdkReceiver
    from oxbus.server import Server

WAIT_SECONDS = 30
"""Time that a receive waits for expected messages; never a measure of speed."""


SPEAKS_AMQP = ("test_amqp_", "test_golden_frames")
"""Name prefixes of the modules without an SDK."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each SDK test that opens a namespace with each tier."""
    if "tier" in metafunc.fixturenames:
        has_sdk = not metafunc.module.__name__.startswith(SPEAKS_AMQP)
        metafunc.parametrize("tier", ["standard", "premium"] if has_sdk else [None], ids=str)


@pytest.fixture
def bus(request: pytest.FixtureRequest, tmp_path: Path, tier: str | None) -> Iterator[Namespace]:
    """A namespace with the system clock: in a directory if the test's entities are partitioned, else in memory.

    With a journal the server works on threads, without one in its own task. Each kind of entity covers one of them,
    since the SDK takes a second to open and close a link.
    A Premium namespace with one partition has no partitioned entities, and one with several has no others.
    """
    is_partitioned = "partitioned" in request.fixturenames and request.getfixturevalue("partitioned")
    options: dict[str, Any] = {"path": tmp_path / "bus", "durability": "os"} if is_partitioned else {}
    if tier == "premium":
        options["partitions"] = 4 if is_partitioned or "spread" in request.fixturenames else 1
    with Namespace(tier=tier, **options) as bus:
        yield bus


@pytest.fixture
def spread() -> None:
    """Mark a test that creates partitioned entities itself."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The file to which the server writes the certificate that clients must trust."""
    return tmp_path / "issuer.pem"


@pytest.fixture
def server(bus: Namespace, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve the namespace of the test on one port of loopback, with the development key."""
    azure_pace.hasten(monkeypatch)
    with serve(bus, certificate_out=certificate) as server:
        yield server


@pytest.fixture
def inside(bus: Namespace) -> ServiceBusAdministrationClient:
    """The administration client of oxbus, in this process."""
    return ServiceBusAdministrationClient(bus)


@pytest.fixture
def oxbus_client(bus: Namespace) -> ServiceBusClient:
    """The client of oxbus, in this process."""
    return ServiceBusClient(bus)


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    """Whether the entities of the test are partitioned."""
    return bool(request.param)


@pytest.fixture
def make_queue(inside: ServiceBusAdministrationClient, partitioned: bool) -> Callable[..., str]:
    """Create a queue, partitioned if the fixture `partitioned` is True, and return its name."""

    def make(name: str = "orders", **options: Any) -> str:
        inside.create_queue(name, enable_partitioning=partitioned, **options)
        return name

    return make


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """A queue with default options."""
    return make_queue()


@pytest.fixture
def client(server: Server) -> Iterator[SdkClient]:
    """The unmodified client of azure-servicebus, without retries."""
    with SdkClient.from_connection_string(server.connection_string, retry_total=0) as client:
        yield client


@pytest.fixture
def admin(server: Server, certificate: Path) -> Iterator[SdkAdministrationClient]:
    """The unmodified administration client of azure-servicebus, which always speaks https."""
    client = SdkAdministrationClient.from_connection_string(
        server.connection_string, connection_verify=str(certificate), retry_total=0
    )
    with client:
        yield client


@pytest.fixture
def send(client: SdkClient) -> Callable[..., None]:
    """Send each text to a queue as a separate message with the given properties."""

    def send(queue: str, *texts: str, **properties: Any) -> None:
        with client.get_queue_sender(queue) as sender:
            for text in texts:
                sender.send_messages(SdkMessage(text, **properties))

    return send


@pytest.fixture
def take() -> Callable[..., list[SdkReceivedMessage]]:
    """Receive exactly `count` messages."""

    def take(receiver: SdkReceiver, count: int) -> list[SdkReceivedMessage]:
        messages: list[SdkReceivedMessage] = []
        while len(messages) < count:
            found = receiver.receive_messages(count - len(messages), max_wait_time=WAIT_SECONDS)
            assert found, f"{len(messages)} of {count} messages came"
            messages += found
        return messages

    return take


@pytest.fixture
def entity_options(partitioned: bool) -> dict[str, Any]:
    """Options of an entity, with or without partitions."""
    return {"enable_partitioning": partitioned}
