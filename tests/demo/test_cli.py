# SPDX-License-Identifier: Apache-2.0
"""The command line: its output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from oxbus import cli


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the installed version."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"oxbus {version('oxbus')}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command and each subcommand have help."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    assert "usage: oxbus" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--nonsense"], ["demo", "--memory", "--data", "here"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command or option is reported on standard error."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: oxbus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "directory"),
    [
        ([], Path(".oxbus-demo")),
        (["--data", "here"], Path("here")),
        (["--memory"], None),
        (["--json"], Path(".oxbus-demo")),
    ],
)
def test_demo_uses_a_directory_by_default(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], directory: Path | None
) -> None:
    """The same command finds the same directory again."""
    asked: list[tuple[Path | None, bool]] = []

    def demo(directory: Path | None, *, as_json: bool) -> int:
        asked.append((directory, as_json))
        return 0

    module = ModuleType("oxbus.demo.main")
    monkeypatch.setattr(module, "main", demo, raising=False)
    monkeypatch.setitem(sys.modules, "oxbus.demo.main", module)
    assert cli.main(["demo", *arguments]) == 0
    assert asked == [(directory, "--json" in arguments)]


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    """A command is required."""
    assert cli.main([]) == 2
    assert "demo" in capsys.readouterr().err


def test_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the extra the demo names the package to install."""
    monkeypatch.delitem(sys.modules, "oxbus.demo.main", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert cli.main(["demo"]) == 2
    assert 'pip install "oxbus[demo]"' in capsys.readouterr().err


def test_runs_as_a_module() -> None:
    """`python -m oxbus.cli` is the same command."""
    command = [sys.executable, "-m", "oxbus.cli", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("oxbus ")
