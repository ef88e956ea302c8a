# SPDX-License-Identifier: Apache-2.0
"""The wheel works without a compiler, sources or other packages."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import oxbus
import pyspark_oxbus
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

with Namespace() as namespace:
    ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=True)
    with ServiceBusClient(namespace) as client:
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("hello", partition_key="a"))
        receiver = client.get_queue_receiver("orders")
        (message,) = receiver.receive_messages(max_wait_time=5)
        receiver.complete_message(message)
        assert message.partition_id == oxbus.partition_id("a")
        assert receiver.receive_messages(max_wait_time=0) == []
        assert not hasattr(pyspark_oxbus, "DefaultSource")  # without Spark, and no error
        print(oxbus.__version__, str(message))
"""


def built_wheels() -> list[Path]:
    """All built wheels."""
    return [path for directory in ("build/wheels", "dist") for path in (ROOT / directory).glob("*.whl")]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The newest wheel that `make test` or `make wheel` built; built if there is none."""
    if not built_wheels():
        subprocess.run(["make", "wheel"], cwd=ROOT, check=True, capture_output=True)
    return max(built_wheels(), key=lambda path: path.stat().st_mtime)


@pytest.mark.timeout(1200)  # The fixture may have to build.
def test_wheel_serves_every_python_from_3_11(wheel: Path) -> None:
    """One wheel uses the stable interface of CPython 3.11 and contains its types and its stub."""
    assert wheel.stem.split("-")[2:4] == ["cp311", "abi3"]
    names = zipfile.ZipFile(wheel).namelist()
    assert {"oxbus/py.typed", "oxbus/_oxbus.pyi"} <= set(names)
    # Spark finds data sources by such module names.
    assert {"pyspark_oxbus/__init__.py", "oxbus/spark/source/data_source.py"} <= set(names)
    assert not [name for name in names if name.startswith("tests")]


@pytest.mark.timeout(1200)
def test_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Send, receive and complete with only the wheel installed."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    # The environment has no pip; the project's pip installs into it, from the file only.
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, cwd=tmp_path)
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [wheel.stem.split("-")[1], "hello"]
