# SPDX-License-Identifier: Apache-2.0
"""The compiled client of `client/`, built with Go and run against a broker."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.contract import UnavailableError
from peers.fetching import CACHE, fetch
from peers.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp.brokers import Endpoint

SOURCES = Path(__file__).parent / "client"
RUN_SECONDS_MAX = 120


@cache
def client() -> Path:
    """Build the client."""
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("no go to build the client with")
    CACHE.mkdir(parents=True, exist_ok=True)
    built = CACHE / "amqp-client"
    fetch([go, "build", "-o", str(built), "."], SOURCES)
    return built


def _command(endpoint: Endpoint, mode: str, options: dict[str, object]) -> list[str]:
    told = {
        "mode": mode,
        "address": f"amqp://{LOOPBACK}:{endpoint.port}",
        "user": endpoint.user,
        "password": endpoint.password,
        "node": endpoint.address,
        "seconds": RUN_SECONDS_MAX,
        **options,
    }
    return [str(client()), *(f"-{name}={value}" for name, value in told.items())]


def run(endpoint: Endpoint, mode: str, **options: object) -> dict[str, Any]:
    """What the client found, which has checked its own answers, and the processor time it took in `client_cpu_s`."""
    before = children_seconds()
    done = subprocess.run(_command(endpoint, mode, options), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the client failed: {done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "client_cpu_s": children_seconds() - before}


def children_seconds() -> float:
    """Processor time of all programs that this one has run to their end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def idle(endpoint: Endpoint, count: int, **options: object) -> Iterator[None]:
    """Keep so many connections open, each with a receiver that waits."""
    command = _command(endpoint, "idle", {"count": count, **options})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "open":
            raise RuntimeError("the client could not open its connections")
        yield
        process.stdin.close()


def server_seconds(pid: int) -> float:
    """Processor time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server_bytes(pid: int) -> int:
    """What a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
