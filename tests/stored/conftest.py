# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores: fixtures for a directory of objects, and for the engines that are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Code that the tests share is in a directory without a conftest, so that mypy finds it by its short name.
sys.path.insert(0, str(Path(__file__).with_name("kit")))

from stored_server import StoredPlace


@pytest.fixture
def place(tmp_path: Path) -> StoredPlace:
    """An empty directory of objects."""
    return StoredPlace(f"objects://{tmp_path}/objects")
