# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of our clients over a network."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.management._atom import _requests
from oxbus.server import serve
from scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus.server import Server


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The file with the issuer of the server's certificate."""
    return tmp_path / "issuer.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[Server]:
    """A server of a namespace in memory."""
    with Namespace() as namespace, serve(namespace, certificate_out=certificate) as server:
        yield server


@pytest.fixture
def admin(server: Server) -> Iterator[ServiceBusAdministrationClient]:
    """An administration client of the server, over HTTP."""
    with ServiceBusAdministrationClient.from_connection_string(server.connection_string, retry_total=0) as admin:
        yield admin


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait before a retry; nothing waits."""
    waits: list[float] = []
    monkeypatch.setattr(_requests, "sleep", waits.append)
    return waits


@pytest.fixture
def scripted(waits: list[float]) -> Iterator[Callable[..., tuple[ServiceBusAdministrationClient, ScriptedServer]]]:
    """Start a server with a script, and create a client of it."""
    assert waits == []
    with ExitStack() as opened:

        def scripted(*script: bytes, **options: Any) -> tuple[ServiceBusAdministrationClient, ScriptedServer]:
            server = opened.enter_context(ScriptedServer(script))
            client = ServiceBusAdministrationClient.from_connection_string(server.connection_string, **options)
            return opened.enter_context(client), server

        yield scripted
