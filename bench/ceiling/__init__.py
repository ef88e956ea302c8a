# SPDX-License-Identifier: Apache-2.0
"""Compiles and loads the yardstick; `load()` answers `None` where there is no C compiler or no Python headers."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


def queue() -> Any:
    """A queue of the yardstick. Only for cases that exist where it compiles."""
    compiled = load()
    assert compiled is not None
    return compiled.Queue()


@cache
def load() -> Any | None:
    """The compiled module, built into a temporary directory once per process."""
    compiler = shutil.which("cc")
    headers = Path(sysconfig.get_paths()["include"])
    if compiler is None or not (headers / "Python.h").exists():
        return None
    directory = Path(tempfile.mkdtemp(prefix="oxbus-ceiling-"))
    library = directory / "ceiling.so"
    source = Path(__file__).with_name("ceiling.c")
    try:
        flags = ["-O3", "-shared", "-fPIC", f"-I{headers}"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        spec = importlib.util.spec_from_file_location("compiled_ceiling", library)
        if spec is None or spec.loader is None:
            return None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        shutil.rmtree(directory)  # the loaded library stays mapped
