# SPDX-License-Identifier: Apache-2.0
"""The failure matrix with two executors: speculation, and a lost executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import oxbus
import pytest
from standalone import HOSTS, standalone_cluster

if TYPE_CHECKING:
    from spark_broker import Broker

KIT = Path(__file__).parents[1] / "kit"

ROWS = 4000


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_two_executors_speculation_and_a_lost_executor(broker: Broker, tmp_path: Path) -> None:
    """One job on two executors, one whose slow task is overtaken by a copy, and one that loses an executor."""
    package = str(Path(oxbus.__file__).parents[1])
    python_path = os.pathsep.join([str(KIT), package])
    broker.create("first", "second")
    faulty = {"testDirectory": str(tmp_path), "maxMessagesPerTrigger": str(ROWS)}
    given = {
        "rows": ROWS,
        "directory": str(tmp_path),
        "in": broker.options("in"),
        "checkpoint": str(tmp_path / "checkpoint-"),
        "out_of": {"oxbus-overtaken": faulty | {"queue": "in"}, "oxbus-losing": faulty | {"queue": "first"}},
        "to": {"oxbus-overtaken": broker.options("first"), "oxbus-losing": broker.options("second")},
    }
    with standalone_cluster(tmp_path, python_path) as master:
        driver = subprocess.run(
            [sys.executable, KIT / "cluster_driver.py", json.dumps(given | {"master": master})],
            env=os.environ | {"PYTHONPATH": python_path, "SPARK_LOCAL_IP": HOSTS[0], "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
    assert driver.returncode == 0, driver.stderr[-3000:]
    assert json.loads(driver.stdout.splitlines()[-1]) == {"rows": ROWS}
    assert all((tmp_path / f"host-{host}").exists() for host in HOSTS)
    assert (tmp_path / "overtaken").exists()
    assert (tmp_path / "lost").exists()
    expected = [(str(number).encode(), f"key-{number % 100}") for number in range(ROWS)]
    found = [(it["body"], it["partition_key"]) for it in broker.messages("second")]
    assert sorted(found) == sorted(expected)
    assert [broker.active(queue) for queue in ("in", "first")] == [0, 0]
