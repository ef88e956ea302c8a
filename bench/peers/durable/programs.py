# SPDX-License-Identifier: Apache-2.0
"""The servers of the peers: the installed one, else one fetched into this project's own cache.

Nothing is installed system-wide. Redis comes out of Debian's packages, NATS is built by Go's own installer.
What cannot be had is an `UnavailableError` with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from peers.durable.contract import UnavailableError

CACHE = Path(__file__).parents[2] / ".cache" / "programs"
FETCH_SECONDS = 1200
NATS_MODULE = "github.com/nats-io/nats-server/v2@v2.15.2"
REDIS_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


@dataclass(frozen=True)
class Program:
    """An executable file and the environment it needs."""

    file: Path
    environment: dict[str, str]
    version: str


def _program(file: Path, environment: dict[str, str], version: str) -> Program:
    """Ask a program for its version; `version` is a pattern with one group."""
    try:
        done = subprocess.run([str(file), "--version"], env=environment, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"{file.name} does not run: {error}") from error
    found = re.search(version, done.stdout)
    return Program(file, environment, found[1] if found else "unknown")


@cache
def redis_server() -> Program:
    """Return the Redis server: installed, or unpacked from the Debian packages."""
    if installed := shutil.which("redis-server"):
        return _program(Path(installed), dict(os.environ), r"v=([\d.]+)")
    root = CACHE / "redis"
    file = root / "usr" / "bin" / "redis-server"
    if not file.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise UnavailableError("no redis-server on PATH, and no apt-get and dpkg to fetch it with")
        root.mkdir(parents=True, exist_ok=True)
        _fetch(["apt-get", "download", *REDIS_PACKAGES], root)
        for package in sorted(root.glob("*.deb")):
            _fetch(["dpkg", "-x", str(package), str(root)], root)
    libraries = ":".join(str(folder) for folder in sorted((root / "usr" / "lib").glob("*-linux-*")))
    return _program(file, {**os.environ, "LD_LIBRARY_PATH": libraries}, r"v=([\d.]+)")


@cache
def nats_server() -> Program:
    """Return the NATS server: installed, or built with Go."""
    if installed := shutil.which("nats-server"):
        return _program(Path(installed), dict(os.environ), r"v([\d.]+)")
    root = CACHE / "nats"
    file = root / "nats-server"
    if not file.exists():
        if not shutil.which("go"):
            raise UnavailableError("no nats-server on PATH, and no go to build it with")
        root.mkdir(parents=True, exist_ok=True)
        _fetch(["go", "install", NATS_MODULE], root, GOBIN=str(root))
    return _program(file, dict(os.environ), r"v([\d.]+)")


def _fetch(command: list[str], folder: Path, **environment: str) -> None:
    print(f"fetching a peer: {' '.join(command)}", flush=True)
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{command[0]} failed: {error.stderr.strip()[-300:]}") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} took longer than {FETCH_SECONDS} s") from error
