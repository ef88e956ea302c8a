# SPDX-License-Identifier: Apache-2.0
"""How Spark gets to know `format("oxbus")`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import oxbus.spark
import pytest
from driven import copied
from oxbus.spark.source.data_source import OxbusDataSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from spark_broker import Broker


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")
def test_spark_finds_it_and_can_be_told(spark: SparkSession, broker: Broker) -> None:
    """Sessions that were told nothing find it; telling one, even twice, does no harm."""
    broker.fill("in", range(3))
    for session in (spark.newSession(), spark.newSession()):
        assert session.read.format("oxbus").options(**broker.options("in")).load().count() == 3
        oxbus.spark.register(session)
    oxbus.spark.register(session)
    assert session.read.format("OXBUS").options(**broker.options("in")).load().count() == 3


def test_module_that_spark_looks_for_imports_nothing() -> None:
    """One that fails would hide all other sources, so it waits with everything until it is asked."""
    program = "import sys, pyspark_oxbus; print([name for name in ('pyspark', 'oxbus') if name in sys.modules])"
    assert run(program) == "[]"


def test_module_that_spark_looks_for_never_raises(tmp_path: Path) -> None:
    """Where PySpark is missing or broken there is no such class, and no error."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise RuntimeError('broken')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pyspark_oxbus; "
        "print(hasattr(pyspark_oxbus, 'DefaultSource'))"
    )
    assert run(program) == "False"


def test_class_is_pickled_by_its_name() -> None:
    """Workers import it, so that what it keeps in its modules lasts from task to task."""
    import pyspark_oxbus  # noqa: PLC0415

    assert pyspark_oxbus.DefaultSource is OxbusDataSource
    assert len(pickle.dumps(OxbusDataSource)) < 100
    assert OxbusDataSource.name() == "oxbus"


def test_readers_and_writers_travel_without_what_is_of_their_process(broker: Broker) -> None:
    """A reader that has begun as a driver arrives in a task as one that has not."""
    source = OxbusDataSource(broker.options("in"))
    reader = source.streamReader(source.schema())
    first = reader.initialOffset()
    try:
        assert first["n"] == 0
        assert copied(reader)._consumer is None
    finally:
        reader.stop()


def run(program: str) -> str:
    """Run a program in a fresh interpreter and return what it printed."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
