# SPDX-License-Identifier: Apache-2.0
"""The progress bar of a command that reads a large directory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, _oxbus, _read_progress, cli
from oxbus import _salvage as _salvage_command
from oxbus._read_progress import ReadProgress
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

LOOKS = 3
"""The first reading is taken before anything is shown."""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the bar from the start."""
    monkeypatch.setattr(_read_progress, "SHOWN_AFTER_SECONDS", 0)
    monkeypatch.setattr(_read_progress, "SHOWN_EVERY_SECONDS", 0.001)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Some files."""
    for number in range(50):
        folder = tmp_path / "files" / str(number % 3)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_bytes(bytes(100_000))
    return tmp_path / "files"


@pytest.mark.usefixtures("at_once")
def test_bytes_read_are_shown(directory: Path) -> None:
    """The bytes rise to the total, and reach it at the end of the block."""
    shown: list[tuple[int, int]] = []
    with ReadProgress(directory, lambda read, total: shown.append((read, total))):
        while len(shown) < 3:
            for file in directory.rglob("*"):
                if file.is_file():
                    file.read_bytes()
        assert all(read < total for read, total in shown)
    assert {total for _, total in shown} == {5_000_000}
    assert shown == sorted(shown)
    assert shown[-1] == (5_000_000, 5_000_000)


def test_a_quick_call_shows_nothing(directory: Path, tmp_path: Path) -> None:
    """No bar within the first second, nor for a directory that does not exist."""
    shown: list[int] = []
    for path in (directory, tmp_path / "missing"):
        with ReadProgress(path, lambda read, _total: shown.append(read)):
            pass
    assert shown == []


@pytest.mark.usefixtures("at_once")
def test_an_error_ends_the_bar(directory: Path) -> None:
    """The error of the block is raised."""
    with pytest.raises(ZeroDivisionError), ReadProgress(directory, lambda *_: None):
        raise ZeroDivisionError


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_salvage_shows_a_bar_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    """The bar is on standard error, which stays empty without a terminal."""
    with Namespace(tmp_path / "bus") as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        client.get_queue_sender("q").send_messages([ServiceBusMessage(bytes(1000)) for _ in range(100)])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    looks: list[int] = []

    def read_so_far() -> int:
        looks.append(len(looks))
        return looks[-1]

    def salvage_slowly(source: Path, target: Path) -> list[dict[str, Any]]:
        found = _oxbus._salvage(source, target)
        while len(looks) < LOOKS:
            time.sleep(0.001)
        return found

    monkeypatch.setattr(_read_progress, "_bytes_read", read_so_far)
    monkeypatch.setattr(_salvage_command, "_salvage", salvage_slowly)
    assert cli.main(["salvage", str(tmp_path / "bus")]) == 0
    out, err = capsys.readouterr()
    assert "The copy is in" in out
    bars = [line for line in err.replace("\r", "\n").splitlines() if line]
    if is_terminal:
        assert bars[0] == f"reading [{' ' * 40}]   0 %"
        assert bars[-1] == f"reading [{'#' * 40}] 100 %"
    else:
        assert bars == []
