# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of durable namespaces: a directory, a bus in it, and other processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oxbus
import pytest

# Shared code lives in a directory without a conftest, so that mypy also finds it by its short name.
sys.path.insert(0, str(Path(__file__).with_name("kit")))

from durable_bus import Bus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus.testing import ManualClock

LIVENESS_SECONDS = 120
"""Time after which a test considers another process stuck; never a measure of speed."""

PREAMBLE = """
import os, sys, threading, time
import oxbus
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import *
from oxbus.management import ServiceBusAdministrationClient
"""


@pytest.fixture
def make_bus(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., Bus]]:
    """Make a closed bus in a directory of the test; close it again when the test ends."""
    made: list[Bus] = []

    def make(name: str = "bus", **options: Any) -> Bus:
        made.append(Bus(tmp_path / name, clock, **options))
        return made[-1]

    yield make
    for bus in made:
        bus.close()


@pytest.fixture
def bus(make_bus: Callable[..., Bus]) -> Bus:
    """An open, empty namespace with four partitions in a directory."""
    bus = make_bus()
    bus.open()
    return bus


@pytest.fixture
def wide_bus(make_bus: Callable[..., Bus]) -> Bus:
    """An open namespace with sixteen partitions and an empty partitioned queue `q`."""
    bus = make_bus(partitions=16)
    bus.open()
    bus.admin.create_queue("q", enable_partitioning=True)
    return bus


@pytest.fixture
def queue(bus: Bus, partitioned: bool) -> Bus:
    """The bus with an empty queue `q`, partitioned if the fixture `partitioned` is True."""
    bus.admin.create_queue("q", enable_partitioning=partitioned)
    return bus


@pytest.fixture
def key_of() -> Callable[..., str]:
    """Find a partition key that maps to the given one of four partitions."""

    def key_of(partition_id: int, partitions: int = 4) -> str:
        candidates = (f"key-{number}" for number in range(100_000))
        return next(key for key in candidates if oxbus.partition_id(key, partitions) == partition_id)

    return key_of


@pytest.fixture
def start_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a script in another process with the arguments `sys.argv[1:]`; kill it if it still runs at the end."""
    with contextlib.ExitStack() as stack:

        def start(script: str, *arguments: object) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-W", "ignore::DeprecationWarning"),
                    *("-c", PREAMBLE + textwrap.dedent(script)),
                    *map(str, arguments),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def run_python(start_python: Callable[..., subprocess.Popen[str]]) -> Callable[..., str]:
    """Run a script in another process to its end and return its output; fail the test if the script fails."""

    def run(script: str, *arguments: object, seconds_max: float = LIVENESS_SECONDS) -> str:
        process = start_python(script, *arguments)
        output, _ = process.communicate(timeout=seconds_max)
        assert process.returncode == 0, output
        return output

    return run


@pytest.fixture
def until_printed(in_background: Callable[..., Any]) -> Callable[[subprocess.Popen[str], str], None]:
    """Wait until a started script prints a line; if it ends before that, fail with all that it printed."""

    def until_printed(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdout is not None
        seen: list[str] = []
        output = process.stdout

        def read() -> bool:
            for printed in output:
                seen.append(printed)
                if printed.strip() == line:
                    return True
            return False

        if not in_background(read).result(LIVENESS_SECONDS):
            pytest.fail(f"the script ended without the line {line!r}:\n{''.join(seen)}")

    return until_printed
