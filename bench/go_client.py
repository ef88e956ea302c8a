# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the Go clients of the module in this folder; measures processor time of clients and servers."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from peers.contract import UnavailableError
from peers.fetching import CACHE, fetch

MODULE = Path(__file__).parent
RUN_SECONDS_MAX = 120

Options = dict[str, object]


@cache
def _built(package: str) -> Path:
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("no go to build the client with")
    CACHE.mkdir(parents=True, exist_ok=True)
    built = CACHE / package.replace("/", "-")
    own = built.with_name(f"{built.name}-{os.getpid()}")  # another process may be running the last one
    fetch([go, "build", "-o", str(own), f"./{package}"], MODULE)
    return own.replace(built)


def version_of(module: str) -> str:
    """The version of a Go module that clients are built with."""
    found = re.search(rf"{re.escape(module)} v(\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise UnavailableError(f"bench/go.mod does not name {module}")
    return found[1]


def command(package: str, options: Options) -> list[str]:
    """How to start the client of a package, which is built first."""
    flags = {"seconds": RUN_SECONDS_MAX, **options}
    return [str(_built(package)), *(f"-{name}={value}" for name, value in flags.items())]


def run(package: str, options: Options) -> dict[str, Any]:
    """Results of the client, which checks its own answers, with its processor time in `client_cpu_s`."""
    arguments = command(package, options)
    before = children_seconds()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the client failed: {done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "client_cpu_s": children_seconds() - before}


def children_seconds() -> float:
    """Processor time of all programs that this one has run to their end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def server_seconds(pid: int) -> float:
    """Processor time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server_bytes(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def shares(server_s: float, client_s: float, count: int) -> dict[str, float]:
    """Processor time of both sides for each message, and the server's part of it."""
    return {
        "server_us_per_message": server_s / count * 1e6,
        "client_us_per_message": client_s / count * 1e6,
        "server_share": server_s / (server_s + client_s),
    }
