# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, if the machine has it: alone, or with a standby that confirms each commit."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine_process import running
from stored_server import LOOPBACK, StoredPlace, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDBY = "standby"
"""What the primary calls its standby."""


def has_postgres() -> bool:
    """Return whether PostgreSQL can be started."""
    return all(map(shutil.which, ("initdb", "postgres", "pg_isready")))


def has_postgres_standby() -> bool:
    """Return whether PostgreSQL can be started with a standby."""
    return has_postgres() and all(map(shutil.which, ("pg_basebackup", "psql")))


@contextlib.contextmanager
def postgres() -> Iterator[StoredPlace]:
    """Run PostgreSQL with an empty database."""
    with _directory() as directory, _primary(directory) as (port, _):
        yield _place(port)


@contextlib.contextmanager
def postgres_standby() -> Iterator[StoredPlace]:
    """Run PostgreSQL with a synchronous standby: a commit is confirmed when both have it on disk."""
    with _directory() as directory, _primary(directory) as (port, primary):
        copy = f"{directory}/copy"
        source = f"host={LOOPBACK} port={port} user=oxbus application_name={STANDBY}"
        words = ["pg_basebackup", "-d", source, "-D", copy, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        subprocess.run(words, check=True, cwd=directory, user=_user())
        with _server(directory, copy, free_port()):
            with Path(f"{directory}/data/postgresql.auto.conf").open("a") as settings:
                settings.write(f"synchronous_standby_names = '{STANDBY}'\n")
            primary.send_signal(signal.SIGHUP)
            wait_until(lambda: _answer(port, "SELECT sync_state FROM pg_stat_replication") == "sync", "replication")
            yield _place(port)
            # A primary without its standby confirms no commit any more.
            primary.send_signal(signal.SIGINT)
            primary.wait()


def _place(port: int) -> StoredPlace:
    return StoredPlace(f"postgresql://oxbus@{LOOPBACK}:{port}/postgres?sslmode=disable&namespace=shop")


def _user() -> str | None:
    """The user that runs the database: it refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="oxbus-postgres-", ignore_cleanup_errors=True) as directory:
        if user := _user():
            shutil.chown(directory, user)
        yield directory


@contextlib.contextmanager
def _primary(directory: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port, data = free_port(), f"{directory}/data"
    make = ["initdb", "--pgdata", data, "--username", "oxbus", "--auth", "trust", "--no-sync"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=directory, user=_user())
    with _server(directory, data, port) as process:
        yield port, process


@contextlib.contextmanager
def _server(directory: str, data: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    words = ["postgres", "-D", data, "-p", port, "-k", directory, "-h", LOOPBACK]
    # The signal ends the connections, too.
    with running(words, port, directory=directory, user=_user(), stop=signal.SIGINT) as process:
        ready = ["pg_isready", "-q", "-h", LOOPBACK, "-p", str(port)]
        wait_until(lambda: not subprocess.run(ready, check=False).returncode, "an answer of PostgreSQL")
        yield process


def _answer(port: int, statement: str) -> str:
    words = ["psql", "-h", LOOPBACK, "-p", str(port), "-U", "oxbus", "-d", "postgres", "-Atc", statement]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
