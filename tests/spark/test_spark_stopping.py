# SPDX-License-Identifier: Apache-2.0
"""The end of a query: Spark ends the process of its source, usually with SIGTERM, and the source still cleans up."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from faulty_sources import StoppingSource
from oxbus.spark.source.data_source import OxbusDataSource
from queries import forward, messages
from spark_versions import STOPS_SOURCES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from spark_broker import Broker

ROWS = 500


def is_over(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_stopped_query_stops_its_source(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Spark stops the reader if it can, its process ends, and the locks of its batch are no longer renewed."""
    spark.dataSource.register(StoppingSource)
    broker.fill("in", range(ROWS))
    df = messages(spark, broker, "oxbus-stopping", testDirectory=tmp_path, lockDuration="5s")
    query = forward(df, broker, tmp_path / "checkpoint").start()
    query.processAllAvailable()
    broker.fill("in", range(ROWS, ROWS + 50))
    query.stop()
    process = int((tmp_path / "running").read_text())
    broker.wait_until(lambda: is_over(process))
    assert (tmp_path / "stopped").exists() or not STOPS_SOURCES
    broker.wait_for_expiry("in")
    left = broker.take("in", ROWS)
    # A batch that was in the sink but not settled yet would be in both queues.
    assert {*broker.numbers("out"), *left} == set(range(ROWS + 50))


@pytest.mark.parametrize("in_spark", [True, False])
def test_handler_of_sigterm_is_set_in_workers_of_spark_only(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, in_spark: bool
) -> None:
    """There SIGTERM ends the process like `sys.exit`, so that cleanup runs; elsewhere the handler is unchanged."""
    if in_spark:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    else:
        monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    source = OxbusDataSource(broker.options("in"))
    reader = source.streamReader(source.schema())
    try:
        reader.initialOffset()
        if in_spark:
            with pytest.raises(SystemExit) as ended:
                os.kill(os.getpid(), signal.SIGTERM)
            assert ended.value.code == 0
        else:
            assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, before)
        reader.stop()
