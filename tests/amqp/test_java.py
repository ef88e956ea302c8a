# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-messaging-servicebus SDK of Java, transactions included: see java/Suite.java."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import sdk_programs
from oxbus.server import serve

if TYPE_CHECKING:
    from oxbus import Namespace
    from oxbus.management import ServiceBusAdministrationClient

pytestmark = pytest.mark.timeout(300)


def address() -> str:
    """An address of loopback that no other process of these tests uses: this SDK knows the port 5672 only."""
    number = os.getpid()
    return f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}"


def test_the_java_sdk_works(bus: Namespace, inside: ServiceBusAdministrationClient) -> None:
    """Messages, settlement, deferral, schedules, sessions, rules and transactions work from Java."""
    mvn, java, javac = (sdk_programs.need(name) for name in ("mvn", "java", "javac"))
    sdk_programs.make_entities(inside)
    with sdk_programs.copy_of("java") as place, serve(bus, host=address(), amqp_port=5672) as server:
        pom = (place / "pom.xml").read_text()
        installed = place / "installed.xml"
        if not installed.exists() or installed.read_text() != pom:
            options = ("-q", "-B", "-DoutputDirectory=lib", "-DincludeScope=runtime")
            sdk_programs.run(mvn, *options, "dependency:copy-dependencies", cwd=place)
            installed.write_text(pom)
        sdk_programs.run(javac, "-cp", "lib/*", "-d", "classes", "Suite.java", cwd=place)
        sdk_programs.run(
            java, "-cp", "lib/*:classes", "Suite", cwd=place, OXBUS_CONNECTION_STRING=server.connection_string
        )
