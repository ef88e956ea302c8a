# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-messaging-servicebus SDK of Java, with transactions; java/Suite.java has the tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import sdk_programs
from oxbus.server import serve

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus import Namespace
    from oxbus.management import ServiceBusAdministrationClient

STORE_PASSWORD = "of no use"  # noqa: S105 -- there is nothing secret in it

pytestmark = pytest.mark.timeout(300)


def address() -> str:
    """A loopback address that no other process of these tests uses: this SDK supports only the port 5672."""
    number = os.getpid()
    return f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}"


@pytest.mark.usefixtures("spread")
def test_the_java_sdk_works(bus: Namespace, inside: ServiceBusAdministrationClient, tmp_path: Path) -> None:
    """Messages, settlement, deferral, schedules, sessions, rules, transactions and administration work from Java."""
    mvn, java, javac, keytool = (sdk_programs.need(name) for name in ("mvn", "java", "javac", "keytool"))
    kinds = sdk_programs.make_entities(inside)
    issuer, trusted = tmp_path / "issuer.pem", tmp_path / "trusted.p12"
    with (
        sdk_programs.copy_of("java") as directory,
        serve(bus, host=address(), amqp_port=5672, certificate_out=issuer) as server,
    ):
        pom = (directory / "pom.xml").read_text()
        installed = directory / "installed.xml"
        if not installed.exists() or installed.read_text() != pom:
            options = ("-q", "-B", "-DoutputDirectory=lib", "-DincludeScope=runtime")
            sdk_programs.run(mvn, *options, "dependency:copy-dependencies", cwd=directory)
            installed.write_text(pom)
        store = ("-keystore", trusted, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD)
        sdk_programs.run(keytool, "-importcert", "-noprompt", "-alias", "oxbus", "-file", issuer, *store, cwd=directory)
        sdk_programs.run(
            javac, "-cp", "lib/*", "-d", "classes", "Suite.java", "Administration.java", "Refusals.java", cwd=directory
        )
        trust = (f"-Djavax.net.ssl.trustStore={trusted}", f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}")
        variables = {"OXBUS_CONNECTION_STRING": server.connection_string, "OXBUS_KINDS": kinds}
        sdk_programs.run(java, *trust, "-cp", "lib/*:classes", "Suite", cwd=directory, **variables)
