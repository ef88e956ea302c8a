# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: the driver is killed, and a new one continues from the checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faulty_sources import DEATHS
from queries import forward, messages, until_done
from spark_versions import since_4_2

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from spark_broker import Broker

DRIVER = Path(__file__).parents[1] / "kit" / "dying_driver.py"

LOGGED = {
    "after reserving": (1, 1),
    "while planning": (2, 1),
    "while reading": (2, 1),
    "after the sink's commit": (2, 1),
    "before completing": (2, 2),
}
"""The numbers of planned and finished batches in the checkpoint at the driver's death: they prove its point."""

SHOWN = {
    "after reserving": 200,
    "while planning": 200,
    "while reading": 200,
    "after the sink's commit": 400,
    "before completing": 400,
}
"""The number of messages in the sink at that time."""


def logged(checkpoint: Path) -> tuple[int, int]:
    """The numbers of planned and of finished batches in the checkpoint."""
    planned, done = (sum(it.name.isdigit() for it in (checkpoint / name).iterdir()) for name in ("offsets", "commits"))
    return planned, done


def die(broker: Broker, tmp_path: Path, point: str, **sink: object) -> Path:
    """Run a driver that is killed with its JVM in the second of three batches; return its checkpoint."""
    (tmp_path / "point").write_text(point)
    checkpoint = tmp_path / "checkpoint"
    directory = {"testDirectory": str(tmp_path)}
    # With small pages, a death during a read comes in the middle of a task.
    source = broker.options("in", maxMessagesPerTrigger=200, consumer="c", arrowBatchBytes="1k") | directory
    given = {
        "directory": str(tmp_path),
        "checkpoint": str(checkpoint),
        "source": source,
        "sink": broker.options("out", **sink) | directory,
    }
    driver = subprocess.run([sys.executable, DRIVER, json.dumps(given)], capture_output=True, text=True, check=False)
    assert driver.returncode == -9, driver.stderr[-3000:]
    return checkpoint


@since_4_2
@pytest.mark.parametrize("point", DEATHS)
def test_driver_that_dies_loses_and_duplicates_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, point: str
) -> None:
    """Killed with its JVM in the second of three batches; the next driver completes the work, message for message."""
    broker.fill("in", range(500))
    before = broker.contents("in")
    checkpoint = die(broker, tmp_path, point)
    assert (logged(checkpoint), broker.active("out")) == (LOGGED[point], SHOWN[point])
    until_done(forward(messages(spark, broker), broker, checkpoint))
    assert broker.contents("out") == before
    assert broker.active("in") == 0


@since_4_2
def test_driver_that_dies_with_an_at_least_once_sink(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With `atLeastOnce` exactly the batch whose send Spark did not record appears twice."""
    broker.fill("in", range(500))
    before = broker.contents("in")
    checkpoint = die(broker, tmp_path, "after the sink's commit", delivery="atLeastOnce")
    once = broker.contents("out")
    assert len(once) == 400
    until_done(forward(messages(spark, broker), broker, checkpoint, delivery="atLeastOnce"))
    after = Counter(broker.contents("out"))
    assert sorted(after) == before
    duplicated = [it for it, count in after.items() if count > 1]
    assert len(duplicated) == 200
    assert set(duplicated) <= set(once)
    assert {after[it] for it in duplicated} == {2}
    assert broker.active("in") == 0
