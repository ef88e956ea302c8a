# SPDX-License-Identifier: Apache-2.0
"""A Spark cluster on this machine: a master, and a worker on each of two addresses.

Spark never runs a speculative copy of a task on the host of the first attempt, so there are two.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("127.0.0.1", "127.0.0.2")

_START_SECONDS = 180
"""Time after which the start of the cluster counts as stuck."""

_PACKAGE = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone_cluster(directory: Path, python_path: str) -> Iterator[str]:
    """Start a cluster and stop it at the end.

    Args:
        directory: The directory for files of its processes.
        python_path: The module path of its Python workers.

    Returns:
        The address of the master.
    """
    port, web = _free_port(), _free_port()
    master = f"spark://{HOSTS[0]}:{port}"
    with contextlib.ExitStack() as started:
        arguments = ["--host", HOSTS[0], "--port", str(port), "--webui-port", str(web)]
        _start(started, directory, python_path, HOSTS[0], f"{_PACKAGE}.master.Master", *arguments)
        for host in HOSTS:
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(directory / host)]
            options += ["--webui-port", "0", master]
            _start(started, directory, python_path, host, f"{_PACKAGE}.worker.Worker", *options)
        _wait_for_workers(web)
        yield master


def _start(started: contextlib.ExitStack, directory: Path, python_path: str, host: str, *command: str) -> None:
    home = Path(pyspark.__file__).parent
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": python_path}
    log = started.enter_context((directory / f"{command[0]}-{host}.log").open("wb"))
    process = subprocess.Popen(
        [home / "bin" / "spark-class", *command], env=os.environ | own, stdout=log, stderr=log, start_new_session=True
    )
    started.callback(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOSTS[0], 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_workers(web: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://{HOSTS[0]}:{web}/json/") as answer:
                workers = json.load(answer)["workers"]
            if sum(it["state"] == "ALIVE" for it in workers) == len(HOSTS):
                return
        assert time.monotonic() < deadline, "the cluster did not start"
        time.sleep(0.1)
