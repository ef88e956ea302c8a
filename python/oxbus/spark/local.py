# SPDX-License-Identifier: Apache-2.0
"""A local Spark session for demos, tests and benches, without web UI and console log."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PYTHON_SETTINGS: Mapping[str, str] = MappingProxyType(
    {"spark.python.unix.domain.socket.enabled": "true", "spark.sql.execution.arrow.maxBytesPerBatch": str(2 << 20)}
)
"""Spark settings for faster exchange of rows with Python tasks.

A Unix socket replaces TCP (from 4.1 on), and batches of at most 2 MiB reuse cached memory. A Spark version that does
not know a setting ignores it.
"""

_LOG_LINES_SHOWN = 5

_SPARKS_OWN: Mapping[str, str] = MappingProxyType({})

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmn96m"
"""For short runs on few cores: serial collector, only the first compiler tier, a small young generation."""


class SparkDidNotStartError(RuntimeError):
    """Spark could not be started, usually because Java is missing."""


@contextlib.contextmanager
def local_session(
    name: str, master: str = "local[2]", java_options: str = _JAVA_OPTIONS, settings: Mapping[str, str] = _SPARKS_OWN
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end.

    Args:
        name: Name of the application.
        master: The Spark master.
        java_options: Options of its JVM; empty for Spark's own.
        settings: Further Spark settings, such as `PYTHON_SETTINGS`.

    Raises:
        SparkDidNotStartError: Spark did not start; the text has the last lines of its log.
    """
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="oxbus-spark-") as scratch:
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's remarks about pandas versions
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        log = Path(scratch, "spark.log")
        builder = (
            SparkSession.builder.master(master)
            .appName(name)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", java_options)
            .config("spark.local.dir", scratch)
            .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
            .config("spark.sql.session.timeZone", "UTC")
            .config(map=dict(settings))
        )
        try:
            with _child_errors_into(log):
                spark = builder.getOrCreate()
        except (PySparkRuntimeError, OSError) as error:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])
            msg = f"Spark did not start; it needs Java 17 or newer (JAVA_HOME or PATH): {error}\n{tail}".rstrip()
            raise SparkDidNotStartError(msg) from error
        try:
            yield spark
        finally:
            _end(spark)


def _end(spark: SparkSession) -> None:
    """Stop Spark and its JVM; PySpark alone leaves the JVM running until Python exits."""
    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the machine ends when its input does
        process.wait()


@contextlib.contextmanager
def _child_errors_into(log: Path) -> Iterator[None]:
    """Redirect the standard error of child processes started in the block to `log`, for their lifetime."""
    sys.stderr.flush()
    original = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
