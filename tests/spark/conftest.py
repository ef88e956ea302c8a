# SPDX-License-Identifier: Apache-2.0
"""One Spark for all tests in this folder; its start takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oxbus.spark.local import local_session

HERE = Path(__file__).parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run all of them in one process when the tests run in several."""
    if item.path.is_relative_to(HERE):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark on two cores."""
    with local_session("oxbus tests") as session:
        yield session
