# SPDX-License-Identifier: Apache-2.0
"""The paths through a broker with one and with two executors, each a process with one core of its own.

    python -m cases.spark_cluster 2 640000      prints rows per second of each path as JSON

The broker and the driver share the cores of the machine with the executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from metrics import RATE
from turns import Found, Group, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plan import Plan

EXECUTORS = (1, 2)
_MEMORY_MIB = 1024
"""Of an executor, as `local-cluster` takes it."""


def name_of(executors: int) -> str:
    """The name of the contender."""
    return f"oxbus, {executors} executor{'s' if executors > 1 else ''}"


def groups(plan: Plan) -> Iterator[Group]:
    """One group: the numbers of executors take turns, each in a process with a Spark of its own."""
    from cases.spark_paths import ROWS  # noqa: PLC0415 -- imports Spark

    if plan.wants("cluster", "spark_cluster"):
        rows = plan.of(ROWS)
        yield Group("cluster", [Turn(name_of(one), partial(_measure, one, rows)) for one in EXECUTORS], rounds_max=3)


def _measure(executors: int, rows: int) -> Iterator[Found]:
    here = Path(__file__).parents[1]
    command = [sys.executable, "-m", "cases.spark_cluster", str(executors), str(rows)]
    environment = os.environ | {"PYTHONPATH": f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, env=environment, cwd=here, stdout=subprocess.PIPE, check=True, text=True)
    for case, rate in json.loads(done.stdout.splitlines()[-1]).items():
        yield Found(case, name_of(executors), {RATE: rate})


def main() -> None:
    """Measure every path once, after a first time that is not counted."""
    from oxbus.spark import register  # noqa: PLC0415
    from oxbus.spark.local import PYTHON_SETTINGS, local_session  # noqa: PLC0415

    from cases import spark_paths  # noqa: PLC0415

    executors, rows = (int(word) for word in sys.argv[1:])
    master = f"local-cluster[{executors},1,{_MEMORY_MIB}]"
    paths: dict[str, tuple[Callable[[spark_paths.ScratchBus], int], bool]] = {
        "spark_cluster_write/1KiB": (spark_paths.write, False),
        "spark_cluster_read/1KiB": (spark_paths.read, True),
        "spark_cluster_stream/1KiB": (partial(spark_paths.stream, delivery="exactlyOnce"), True),
    }
    rates = {}
    with local_session("oxbus bench", master, java_options="", settings=PYTHON_SETTINGS) as spark:
        register(spark)
        spark_paths.use(spark)
        for case, (run, filled) in paths.items():
            for _time in range(2):
                with contextlib.closing(spark_paths.make(rows, served=True, filled=filled)) as bus:
                    started = time.perf_counter()
                    spark_paths.check_all(bus, run(bus))
                    rates[case] = rows / (time.perf_counter() - started)
    sys.stdout.write(f"\n{json.dumps(rates)}\n")


if __name__ == "__main__":
    main()
