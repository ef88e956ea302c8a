# SPDX-License-Identifier: Apache-2.0
"""The unmodified azservicebus SDK of Go; go/main.go has the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sdk_programs

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("spread")
def test_the_go_sdk_works(server: Server, inside: ServiceBusAdministrationClient, certificate: Path) -> None:
    """Messages, settlement, deferral, schedules, sessions, topics and administration work from Go."""
    go = sdk_programs.need("go")
    kinds = sdk_programs.make_entities(inside)
    with sdk_programs.copy_of("go") as directory:
        sdk_programs.run(go, "build", "-o", "suite", ".", cwd=directory)
        sdk_programs.run(
            directory / "suite",
            cwd=directory,
            OXBUS_CONNECTION_STRING=server.connection_string,
            OXBUS_KINDS=kinds,
            SSL_CERT_FILE=str(certificate),
        )
