# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/guide/azure-sdks.md run as a reader copies them, with the variable that the page sets."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sdk_programs

if TYPE_CHECKING:
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

GUIDE = (Path(__file__).parents[2] / "docs/guide/azure-sdks.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.timeout(300)


def program(language: str, fence: str) -> str:
    """The first block of a language's section."""
    section = GUIDE.split(f"\n## {language}\n")[1].split("\n## ")[0]
    found = re.search(rf"^```{fence}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_python(server: Server, inside: ServiceBusAdministrationClient, tmp_path: Path) -> None:
    """It prints the message that it sent, and leaves none."""
    inside.create_queue("orders")
    (tmp_path / "first.py").write_text(program("Python", "python no-run"))
    printed = sdk_programs.run(
        sys.executable, "first.py", cwd=tmp_path, OXBUS_CONNECTION_STRING=server.connection_string
    )
    assert printed == "hello\n"
    assert inside.get_queue_runtime_properties("orders").total_message_count == 0


def test_javascript(server: Server, inside: ServiceBusAdministrationClient) -> None:
    """It ends: without the close of the client it did not."""
    npm, node = sdk_programs.need("npm"), sdk_programs.need("node")
    inside.create_queue("orders")
    with sdk_programs.copy_of("node") as directory:
        sdk_programs.install(npm, directory)
        (directory / "first.mjs").write_text(program("JavaScript", "js"))
        printed = sdk_programs.run(node, "first.mjs", cwd=directory, OXBUS_CONNECTION_STRING=server.connection_string)
    assert printed == "hello\n"
    assert inside.get_queue_runtime_properties("orders").total_message_count == 0


def test_go(server: Server, inside: ServiceBusAdministrationClient) -> None:
    """It compiles, and prints the message that it sent."""
    go = sdk_programs.need("go")
    inside.create_queue("orders")
    with sdk_programs.copy_of("go") as directory:
        first = directory / "first"
        first.mkdir(exist_ok=True)
        (first / "main.go").write_text(program("Go", "go"))
        sdk_programs.run(go, "build", "-o", "first/program", "./first", cwd=directory)
        printed = sdk_programs.run(first / "program", cwd=directory, OXBUS_CONNECTION_STRING=server.connection_string)
    assert printed == "hello\n"
    assert inside.get_queue_runtime_properties("orders").total_message_count == 0
