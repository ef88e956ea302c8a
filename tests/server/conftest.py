# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the server: a server over a namespace, clients of the official SDK, plain HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
from oxbus.server import serve
from plain_http import Http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus import Namespace
    from oxbus.server import Server
    from oxbus.testing import ManualClock


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The file to which the server writes the certificate that clients must trust."""
    return tmp_path / "issuer.pem"


@pytest.fixture
def server(namespace: Namespace, certificate: Path) -> Iterator[Server]:
    """Serve the namespace of the test on one port of loopback, with the development key and certificate."""
    with serve(namespace, certificate_out=certificate) as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Http]]:
    """Open connections to the test server; close them at the end of the test."""
    with ExitStack() as opened:

        def connect(**credentials: str) -> Http:
            connection = Http(server, **credentials)
            opened.callback(connection.connection.close)
            return connection

        yield connect


@pytest.fixture
def ask(connect: Callable[..., Http]) -> Http:
    """One connection to the server of the test."""
    return connect()


@pytest.fixture
def sdk(server: Server, certificate: Path) -> Iterator[SdkAdministrationClient]:
    """The unmodified administration client of azure-servicebus, over https."""
    client = SdkAdministrationClient.from_connection_string(
        server.connection_string, connection_verify=str(certificate), retry_total=0
    )
    with client:
        yield client


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests with an SDK with the tiers Standard and Premium; those with plain HTTP have none."""
    if {"tier", "namespace"} <= {*metafunc.fixturenames}:
        has_sdk = metafunc.module.__name__.startswith("test_sdk_")
        metafunc.parametrize("tier", ["standard", "premium"] if has_sdk else [None], ids=str)


@pytest.fixture
def namespace(open_namespace: Callable[..., Namespace], clock: ManualClock, tier: str | None) -> Namespace:
    """A namespace of the tier that follows `clock`."""
    return open_namespace(clock=clock, tier=tier)
