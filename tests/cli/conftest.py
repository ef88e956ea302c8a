# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run commands: a namespace in a directory, and a runner."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from oxbus import Namespace
from oxbus.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Outcome(NamedTuple):
    """The result of a command.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The single JSON line printed by a successful command."""
        assert (self.code, self.err) == (0, "")
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def json_lines(self) -> list[Any]:
        """The JSON lines printed by a successful command."""
        assert (self.code, self.err) == (0, "")
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty namespace with four partitions, which opens quickly; commands find it by the environment."""
    path = tmp_path / "bus"
    Namespace(path, partitions=4).close()
    monkeypatch.setenv("OXBUS_DATA", str(path))
    monkeypatch.delenv("OXBUS_TIER", raising=False)
    # The width of a terminal would wrap the lines of `--help`.
    monkeypatch.setenv("COLUMNS", "120")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run a command in this process with some bytes as its standard input."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        try:
            code: Any = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


@pytest.fixture
def ox(data: Path, run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Run a command on the namespace `data` and expect success."""
    assert data.is_dir()

    def ox(*arguments: object, stdin: bytes = b"") -> Outcome:
        done = run(*arguments, stdin=stdin)
        assert (done.code, done.err) == (0, ""), (arguments, done)
        return done

    return ox


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[bytes]]:
    """Start a command in another process; it receives Ctrl-C even if a shell runs the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(*arguments: object, **how: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "oxbus.cli", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)

    return start


@pytest.fixture
def launch() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a server process that ends with the test."""
    launched: list[subprocess.Popen[str]] = []

    def launch(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        # Its log is tested elsewhere (tests/logging).
        command = [sys.executable, "-m", "oxbus.cli", "serve", "--log-level", "error", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
        )
        launched.append(process)
        return process

    yield launch
    for process in launched:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)
