# SPDX-License-Identifier: Apache-2.0
"""The unmodified @azure/service-bus SDK on Node; node/suite.test.mjs has the tests."""

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
def test_the_node_sdk_works(server: Server, inside: ServiceBusAdministrationClient, certificate: Path) -> None:
    """Messages, settlement, deferral, schedules, sessions, rules and administration work from Node."""
    npm, node = sdk_programs.need("npm"), sdk_programs.need("node")
    kinds = sdk_programs.make_entities(inside)
    with sdk_programs.copy_of("node") as directory:
        sdk_programs.install(npm, directory)
        sdk_programs.run(
            node,
            "--test",
            "suite.test.mjs",
            cwd=directory,
            OXBUS_CONNECTION_STRING=server.connection_string,
            OXBUS_KINDS=kinds,
            NODE_EXTRA_CA_CERTS=str(certificate),
        )
