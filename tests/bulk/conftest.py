# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of bulk clients: a server over a namespace, and a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus.bulk import BulkClient
from oxbus.server import serve

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace
    from oxbus.server import Server


@pytest.fixture
def server(namespace: Namespace) -> Iterator[Server]:
    """Serve the namespace of the test on loopback, with the development key."""
    with serve(namespace) as server:
        yield server


@pytest.fixture
def bulk(server: Server) -> Iterator[BulkClient]:
    """A client of the test server."""
    with BulkClient(server.connection_string) as client:
        yield client


@pytest.fixture
def rows() -> Callable[..., Any]:
    """Make a table of messages with the bodies "0", "1", …, and further columns."""

    def rows(count: int, **columns: Any) -> Any:
        bodies = pa.array([str(number).encode() for number in range(count)], pa.binary())
        return pa.table({"body": bodies, **columns})

    return rows
