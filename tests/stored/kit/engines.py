# SPDX-License-Identifier: Apache-2.0
"""The engines that tests of stores run on.

`OXBUS_TEST_ENGINES` names others than the default ones, separated by spaces. An engine that is named must be there; a
default one is left out where it is not installed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine_azurite import azurite, has_azurite
from engine_postgres import has_postgres, has_postgres_standby, postgres, postgres_standby
from engine_s3 import has_minio, has_versitygw, minio, versitygw
from stored_server import StoredPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class Engine:
    """An engine that tests start.

    Attributes:
        is_there: Returns whether it is installed.
        run: Runs it, with an empty place.
        advice: How to install it.
    """

    is_there: Callable[[], bool]
    run: Callable[[], AbstractContextManager[StoredPlace]]
    advice: str


@contextlib.contextmanager
def objects() -> Iterator[StoredPlace]:
    """A directory of objects, which needs no process."""
    with tempfile.TemporaryDirectory(prefix="oxbus-objects-") as directory:
        yield StoredPlace(f"objects://{directory}/shop")


_FETCHED: Final = "run `make test-engines`, which fetches it"

ENGINES: Final = {
    "objects": Engine(lambda: True, objects, ""),
    "azurite": Engine(has_azurite, azurite, "run `make engines`, which needs Node"),
    "postgres": Engine(has_postgres, postgres, "install PostgreSQL"),
    "postgres-standby": Engine(has_postgres_standby, postgres_standby, "install PostgreSQL with its client"),
    "versitygw": Engine(has_versitygw, versitygw, _FETCHED),
    "minio": Engine(has_minio, minio, _FETCHED),
}

_NAMED: Final = os.environ.get("OXBUS_TEST_ENGINES", "").split()
CHOSEN: Final = _NAMED or ["objects", "azurite", "postgres"]
"""The names of the engines of this run."""


def missing(name: str) -> str | None:
    """Return why tests leave an engine out, if they do."""
    engine = ENGINES[name]
    if engine.is_there():
        return None
    assert name not in _NAMED, f"{name} is not installed: {engine.advice}"
    return f"{name} is not installed: {engine.advice}"
