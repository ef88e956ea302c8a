# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores: fixtures for a directory of objects, and for the engines that are installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Code that the tests share is in a directory without a conftest, so that mypy finds it by its short name.
sys.path.insert(0, str(Path(__file__).with_name("kit")))

import engines
from stored_server import StoredPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINES = {
    "azurite": (engines.has_azurite, engines.azurite, "run `make engines`, which needs Node"),
    "postgres": (engines.has_postgres, engines.postgres, "install PostgreSQL"),
}


@pytest.fixture(params=["objects", *ENGINES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredPlace]:
    """An empty place in a store, of each kind."""
    if request.param == "objects":
        yield StoredPlace(f"objects://{tmp_path}/objects")
        return
    is_there, run, advice = ENGINES[request.param]
    if not is_there():
        pytest.skip(f"{request.param} is not installed: {advice}")
    with run() as found:
        yield found
