# SPDX-License-Identifier: Apache-2.0
"""The Spark settings that the guide recommends do not affect a load and a drain; older versions ignore some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark.local import PYTHON_SETTINGS
from spark_versions import PYSPARK

ROWS = 6000
BODY_BYTES = 1024
"""All rows together exceed one batch under the settings."""

DRIVER = Path(__file__).with_name("kit") / "settings_driver.py"


def test_bulk_load_and_drain_under_the_settings(tmp_path: Path) -> None:
    """In a separate session, as most of them are fixed when Spark starts."""
    path = tmp_path / "bus"
    with Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    arguments = {"path": str(path), "queue": "q", "rows": ROWS, "body_bytes": BODY_BYTES}
    command = [sys.executable, str(DRIVER), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    expected = {f"body {number}".ljust(BODY_BYTES, "."): f"key-{number % 100}" for number in range(ROWS)}
    assert (answer["loaded"], answer["attached again"]) == (ROWS, 0)
    assert len(answer["drained"]) == ROWS
    assert dict(answer["drained"]) == expected
    assert sorted(answer["by row"]) == sorted(expected)
    assert answer["settings"] == dict(PYTHON_SETTINGS)
    assert answer["unix socket"] == (PYSPARK >= (4, 1))
