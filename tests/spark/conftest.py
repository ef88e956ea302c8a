# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all tests in this folder, because its start takes seconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oxbus.spark.local import local_session

# Shared code lives in a directory without a conftest, so that mypy also finds it by its short name.
KIT = str(Path(__file__).with_name("kit"))
EXAMPLES = str(Path(__file__).parents[2] / "examples" / "spark")
sys.path.insert(0, KIT)

from spark_broker import Broker  # noqa: E402 (the path of the kit is set above)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


HERE = Path(__file__).parent
MARKS = (
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets to the garbage collector
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
)
"""Marks of every test in this folder."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the marks of this folder to its tests."""
    for item in items:
        if HERE in item.path.parents:
            for mark in MARKS:
                # The marks of the test itself come first and win.
                item.add_marker(mark, append=True)
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark on two cores that tries each task up to two times. Its workers can import kit and examples."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [KIT, EXAMPLES, os.environ.get("PYTHONPATH")]))
    with local_session("oxbus tests", "local[2,2]") as session:
        yield session


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with two partitioned queues, `in` and `out`."""
    broker = Broker(tmp_path / "bus")
    broker.create("in", "out")
    yield broker
    broker.stop()
