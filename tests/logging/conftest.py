# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the log: programs in separate processes, as each process has one log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

KIT = Path(__file__).with_name("kit")
# Shared code lives in a directory without a conftest, so that mypy also finds it by its short name.
sys.path.insert(0, str(KIT))

if TYPE_CHECKING:
    from collections.abc import Callable

LIVENESS_SECONDS = 120
"""Time after which a test considers a program stuck; never a measure of speed."""

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]

PREAMBLE = """
import logging, os, sys, time
import oxbus
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import *
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault
"""


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    tests = KIT.parents[1]
    path = os.pathsep.join(map(str, [KIT, tests / "kit", tests / "durable" / "kit"]))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIVENESS_SECONDS, env=environment
    )


@pytest.fixture
def run_program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program to its end; fail the test if the program fails."""

    def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = _run([sys.executable, "-W", "error", "-c", PREAMBLE + textwrap.dedent(program), *map(str, arguments)])
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def lines_of(run_program: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Run a program that prints its log; return the records of its lines."""

    def lines_of(program: str, *arguments: object) -> list[dict[str, Any]]:
        printed = "from printed_log import print_log\n" + textwrap.dedent(program)
        return records(run_program(printed, *arguments).stdout)

    return lines_of


@pytest.fixture
def provoke(tmp_path: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Provoke an event with secrets in all data; return the records of all lines."""

    def provoke(event: str) -> list[dict[str, Any]]:
        needs_mount = event.startswith(("disk.full", "disk.free"))
        if needs_mount and _run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).returncode != 0:
            pytest.skip("this user may not mount a file system, not even in a user namespace")
        before = UNSHARE if needs_mount else []
        done = _run([*before, sys.executable, str(KIT / "provoke.py"), event, str(tmp_path)])
        assert done.returncode == 0, done.stderr
        return records(done.stdout)

    return provoke


def records(printed: str) -> list[dict[str, Any]]:
    """The records that a program printed."""
    return [json.loads(line) for line in printed.splitlines()]
