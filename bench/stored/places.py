# SPDX-License-Identifier: Apache-2.0
"""The places of a namespace: a directory, and the stores that this machine can run. Each starts empty and fresh.

A fresh store per figure, because some become slow with what they hold: Azurite keeps its blobs in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import engine_azurite
import engine_postgres
import engine_s3
from durable import measure
from peers.contract import Level, UnavailableError
from peers.fetching import fetch
from stored_server import StoredPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


TOOLS = Path(__file__).parents[2] / "target/tools/bin"
VERSITYGW_MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


@dataclass(frozen=True)
class Place:
    """A kind of place."""

    name: str
    level: Level
    """What an acknowledged message survives in this engine, not in the cloud that it stands for."""
    run: Callable[[], contextlib.AbstractContextManager[StoredPlace]]
    version: Callable[[], str] = lambda: ""
    """That of the engine."""

    @property
    def is_store(self) -> bool:
        """Whether another server can take over, and requests can be counted."""
        return self.name != DIRECTORY.name

    @property
    def is_object_storage(self) -> bool:
        """Whether its requests are HTTP."""
        return self in OBJECT_STORAGE


@contextlib.contextmanager
def _directory() -> Iterator[StoredPlace]:
    with empty_folder() as folder:
        yield StoredPlace(f"{folder}/bus")


@contextlib.contextmanager
def _postgres() -> Iterator[StoredPlace]:
    if not engine_postgres.has_postgres():
        raise UnavailableError("PostgreSQL is not installed")
    with engine_postgres.postgres() as place:
        yield place


@contextlib.contextmanager
def _azurite() -> Iterator[StoredPlace]:
    if not engine_azurite.has_azurite():
        raise UnavailableError("Azurite is not installed: run `make engines`, which needs Node")
    with engine_azurite.azurite() as place:
        yield place


@contextlib.contextmanager
def _versitygw() -> Iterator[StoredPlace]:
    if str(TOOLS) not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += f"{os.pathsep}{TOOLS}"
    if not engine_s3.has_versitygw():
        if not shutil.which("go"):
            raise UnavailableError("no versitygw, and no go to build it with")
        TOOLS.mkdir(parents=True, exist_ok=True)
        fetch(["go", "install", VERSITYGW_MODULE], TOOLS, GOBIN=str(TOOLS))
    with engine_s3.versitygw() as place:
        yield place


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """An empty directory on the disk of this checkout."""
    measure.SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.SCRATCH, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _postgres_version() -> str:
    words = ["postgres", "--version"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[2]


def _azurite_version() -> str:
    package = engine_azurite.AZURITE.parents[3] / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


def _versitygw_version() -> str:
    return VERSITYGW_MODULE.rpartition("@v")[2]


DIRECTORY = Place("directory", Level.FSYNC, _directory)
POSTGRES = Place("PostgreSQL", Level.FSYNC, _postgres, _postgres_version)
AZURITE = Place("Azurite", Level.MEMORY, _azurite, _azurite_version)
VERSITYGW = Place("versitygw", Level.OS, _versitygw, _versitygw_version)
OBJECT_STORAGE = (AZURITE, VERSITYGW)
STORES = (POSTGRES, AZURITE, VERSITYGW)
PLACES = (DIRECTORY, *STORES)
