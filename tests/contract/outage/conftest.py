# SPDX-License-Identifier: Apache-2.0
"""Fixtures for outage tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from outage_scene import OUTAGES, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import Namespace
    from oxbus.testing import ManualClock


@pytest.fixture(params=OUTAGES)
def outage(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The message store, and the fault that takes the partition out of service."""
    return OUTAGES[request.param]


@pytest.fixture
def store(outage: tuple[str, str]) -> str:
    """The message store."""
    return outage[0]


@pytest.fixture
def scene(namespace: Namespace, clock: ManualClock, outage: tuple[str, str]) -> Iterator[Scene]:
    """A namespace with one entity of each kind."""
    scene = Scene(namespace, clock, outage[1])
    yield scene
    scene.client.close()
