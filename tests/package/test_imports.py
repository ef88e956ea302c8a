# SPDX-License-Identifier: Apache-2.0
"""`import oxbus` is cheap: it starts no thread and loads no optional module."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["asyncio", "concurrent.futures", "importlib.metadata", "logging", "numpy", "pandas", "pyarrow", "pyspark"]


def run(program: str) -> str:
    """Run a program in a fresh interpreter and return what it printed."""
    return subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


@pytest.mark.parametrize("module", ["oxbus", "oxbus.management", "oxbus.testing"])
def test_import_loads_nothing_heavy(module: str) -> None:
    """None of the heavy modules is loaded that were not loaded before."""
    program = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    assert set(HEAVY) & set(run(program).split()) == set()


def test_spark_without_pyspark_names_the_extra() -> None:
    """The text was `No module named 'pyspark'`."""
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "try: import oxbus.spark\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert 'pip install "oxbus[spark]"' in run(program)


def test_import_starts_no_thread() -> None:
    """The process has one thread after the import, by Python's count and by the kernel's."""
    program = "import os, threading, oxbus; print(threading.active_count(), len(os.listdir('/proc/self/task')))"
    assert run(program).split() == ["1", "1"]
