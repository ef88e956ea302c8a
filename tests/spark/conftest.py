# SPDX-License-Identifier: Apache-2.0
"""One Spark for all tests in this folder; its start takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus.spark.local import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark on two cores."""
    with local_session("oxbus tests") as session:
        yield session
