# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores: fixtures for a directory of objects, and for the engines that are installed."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Code that the tests share is in a directory without a conftest, so that mypy finds it by its short name.
sys.path.insert(0, str(Path(__file__).with_name("kit")))

import engines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stored_server import StoredPlace


@pytest.fixture(scope="session")
def start_engine() -> Iterator[Callable[[str], StoredPlace]]:
    """Start an engine that a test asks for, once. It runs until the session ends, because starts take seconds."""
    with contextlib.ExitStack() as stack:
        started: dict[str, StoredPlace] = {}

        def start(name: str) -> StoredPlace:
            if name not in started:
                started[name] = stack.enter_context(engines.ENGINES[name].run())
            return started[name]

        yield start


@pytest.fixture(params=engines.CHOSEN)
def place(request: pytest.FixtureRequest, start_engine: Callable[[str], StoredPlace]) -> StoredPlace:
    """An empty place in a store, of each kind."""
    if reason := engines.missing(request.param):
        pytest.skip(reason)
    return start_engine(request.param).fresh()
