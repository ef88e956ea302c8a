# SPDX-License-Identifier: Apache-2.0
"""A peer's server as a child of the bench: started on a free loopback port, ended with its queue."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from peers.contract import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from peers.programs import Program

LOOPBACK = "127.0.0.1"
START_SECONDS = 20
STOP_SECONDS = 20


def free_port() -> int:
    """Return a port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Server:
    """A running server; its output goes to `server.log` in its directory."""

    def __init__(
        self, program: Program, arguments: list[str], directory: Path, port: int, start_seconds: float = START_SECONDS
    ) -> None:
        self.port = port
        self._start_seconds = start_seconds
        self._log = directory / "server.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(program.file), *arguments],
                cwd=directory,
                env=program.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_for_port()
        except BaseException:
            self.stop()
            raise

    def _wait_for_port(self) -> None:
        until = time.monotonic() + self._start_seconds
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise UnavailableError(f"the server ended with {self._process.returncode}: {self._last_lines()}")
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1):
                return
            time.sleep(0.02)
        raise UnavailableError(f"the server does not listen after {self._start_seconds} s: {self._last_lines()}")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def _last_lines(self) -> str:
        return " | ".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the server to end, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
