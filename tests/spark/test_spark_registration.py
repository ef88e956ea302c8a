# SPDX-License-Identifier: Apache-2.0
"""The registration of `format("oxbus")` in Spark."""

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
def test_spark_finds_it_with_and_without_registration(spark: SparkSession, broker: Broker) -> None:
    """Sessions find it without registration; registering it, even twice, is harmless."""
    broker.fill("in", range(3))
    for session in (spark.newSession(), spark.newSession()):
        assert session.read.format("oxbus").options(**broker.options("in")).load().count() == 3
        oxbus.spark.register(session)
    oxbus.spark.register(session)
    assert session.read.format("OXBUS").options(**broker.options("in")).load().count() == 3


def test_module_that_spark_looks_for_imports_nothing() -> None:
    """An import error there would hide all other sources, so the module imports everything on first use."""
    program = "import sys, pyspark_oxbus; print([name for name in ('pyspark', 'oxbus') if name in sys.modules])"
    assert run(program) == "[]"


def test_module_that_spark_looks_for_never_raises(tmp_path: Path) -> None:
    """Without PySpark, or with a broken one, the class is missing, but there is no error."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise RuntimeError('broken')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pyspark_oxbus; "
        "print(hasattr(pyspark_oxbus, 'DefaultSource'))"
    )
    assert run(program) == "False"


def test_class_is_pickled_by_its_name() -> None:
    """Workers import it, so the state of its modules is kept from task to task."""
    import pyspark_oxbus  # noqa: PLC0415

    assert pyspark_oxbus.DefaultSource is OxbusDataSource
    assert len(pickle.dumps(OxbusDataSource)) < 100
    assert OxbusDataSource.name() == "oxbus"


def test_pickled_readers_and_writers_omit_process_state(broker: Broker) -> None:
    """A reader that has started on the driver arrives in a task in its initial state."""
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
