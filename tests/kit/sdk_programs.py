# SPDX-License-Identifier: Apache-2.0
"""Programs in other languages that use an SDK of Azure Service Bus: requirements and runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oxbus.management import AuthorizationRule, MessagingSku

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus.management import ServiceBusAdministrationClient

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "amqp"
BUILD = ROOT / "build" / "amqp"
"""Where packages are installed and programs are built; `make clean` removes it."""

LISTENER = AuthorizationRule(key_name="listener", primary_key="a key that may listen", rights=["Listen"])
"""An authorization rule of the queues for orders: programs try calls that it forbids."""

RUN_SECONDS_MAX = 150
"""How long a program may take before it counts as stuck; not a measure of speed."""


def need(program: str) -> str:
    """Find a program, or skip the test and name the missing program."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: install it and run the test again")
    return found


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a program to its end and return what it printed; the test fails with that when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_SECONDS_MAX,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-20_000:]}")
    return done.stdout


@contextmanager
def copy_of(language: str) -> Iterator[Path]:
    """The sources of a language in its build directory, locked for one process."""
    target = BUILD / language
    target.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{language}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(SOURCES / language, target, dirs_exist_ok=True)
        yield target


def install(npm: str, directory: Path) -> None:
    """Install the packages of a copy for Node, unless they are there."""
    lock = (directory / "package-lock.json").read_text()
    installed = directory / "installed.json"
    if not installed.exists() or installed.read_text() != lock:
        run(npm, "ci", "--no-audit", "--no-fund", cwd=directory)
        installed.write_text(lock)


def make_entities(admin: ServiceBusAdministrationClient) -> str:
    """Create the queues and the topic that the programs use, and return their kinds.

    In a Premium namespace all entities are of one kind. The programs take the kinds from ``OXBUS_KINDS``.
    """
    kinds = ["plain", "partitioned"]
    if admin.get_namespace_properties().messaging_sku == MessagingSku.PREMIUM:
        kinds = ["partitioned"]
    for kind in kinds:
        partitioned = kind == "partitioned"
        admin.create_queue(f"{kind}-orders", enable_partitioning=partitioned, authorization_rules=[LISTENER])
        admin.create_queue(f"{kind}-sessions", enable_partitioning=partitioned, requires_session=True)
        admin.create_topic(f"{kind}-news", enable_partitioning=partitioned)
        for subscription in ("all", "chosen"):
            admin.create_subscription(f"{kind}-news", subscription)
    return ",".join(kinds)
