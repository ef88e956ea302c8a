# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: the driver is killed, and a new one goes on from the checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from faulty_sources import DEATHS
from queries import forward, messages, until_done

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
"""How many batches the checkpoint has as planned and as done when the driver dies: this shows that it died there."""


def logged(checkpoint: Path) -> tuple[int, int]:
    """How many batches the checkpoint has as planned and as done."""
    planned, done = (sum(it.name.isdigit() for it in (checkpoint / name).iterdir()) for name in ("offsets", "commits"))
    return planned, done


def contents(broker: Broker, queue: str) -> list[tuple[Any, ...]]:
    """All that a queue has, comparable."""
    return sorted((it["message_id"], it["body"], it["partition_key"]) for it in broker.messages(queue))


@pytest.mark.parametrize("point", DEATHS)
def test_driver_that_dies_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, point: str
) -> None:
    """Killed with its Java machine in the second of three batches; the next driver finishes."""
    broker.fill("in", range(500))
    before = contents(broker, "in")
    (tmp_path / "point").write_text(point)
    checkpoint = tmp_path / "checkpoint"
    directory = {"testDirectory": str(tmp_path)}
    # Small pages, so that a death while reading comes in the middle of a task.
    source = broker.options("in", maxMessagesPerTrigger=200, consumer="c", arrowBatchBytes="1k") | directory
    given = {
        "directory": str(tmp_path),
        "checkpoint": str(checkpoint),
        "source": source,
        "sink": broker.options("out") | directory,
    }
    driver = subprocess.run([sys.executable, DRIVER, json.dumps(given)], capture_output=True, text=True, check=False)
    assert driver.returncode == -9, driver.stderr[-3000:]
    assert logged(checkpoint) == LOGGED[point]
    until_done(forward(messages(spark, broker), broker, checkpoint))
    assert contents(broker, "out") == before
    assert broker.active("in") == 0
