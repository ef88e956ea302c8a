# SPDX-License-Identifier: Apache-2.0
"""For any input, a command ends with an exit code and a line on how to resolve the error, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oxbus.cli import _run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

NUMBERS = ["-1", "0", "1", "99999999999999999999999", "9223372036854775807", "1e3", "nan", "", "x"]
DURATIONS = ["0s", "1e400s", "99999999999d", "-5s", "P", "PT", "PT99999999999999H", "5x", "", "never", "1h 5m", "m"]
NAMES = ["", " ", "a/b", "/a", "a//b", "$x", "a\n\x1b[31mb", "x" * 300, "\udcff", "ä"]


def check_error_output(outcome: Any) -> None:
    """A failure is one line, wrong usage a line after the usage, and neither shows a traceback or a raw escape."""
    code, _, err = outcome
    assert code in {0, 1, 2}
    assert (code == 0) == (err == "")
    assert "Traceback" not in err
    assert "\x1b" not in err
    if code == 1:
        assert len(err.splitlines()) == 1
        assert err.startswith("oxbus: ")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "option", ["--max-delivery-count", "--max-size-in-megabytes", "--max-message-size-in-kilobytes"]
)
def test_numbers(ox: Callable[..., Any], run: Callable[..., Any], option: str, number: str) -> None:
    """A number out of range is rejected, and no queue is created."""
    outcome = run("queue", "create", "orders", f"{option}={number}")
    check_error_output(outcome)
    assert len(ox("queue", "list", "--json").json) == (outcome.code == 0)


@pytest.mark.parametrize("duration", DURATIONS)
@pytest.mark.parametrize("option", ["--lock-duration", "--default-message-time-to-live", "--auto-delete-on-idle"])
def test_durations(ox: Callable[..., Any], run: Callable[..., Any], option: str, duration: str) -> None:
    """A duration out of range is rejected, and no queue is created."""
    outcome = run("queue", "create", "orders", f"{option}={duration}")
    check_error_output(outcome)
    assert len(ox("queue", "list", "--json").json) == (outcome.code == 0)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "command",
    [
        ["receive", "orders", "--count"],
        ["receive", "orders", "--partition"],
        ["peek", "orders", "--from"],
        ["peek", "orders", "--count"],
        ["deadletter", "purge", "orders", "--limit"],
        ["deadletter", "resubmit", "orders", "--limit"],
        ["deadletter", "resubmit", "orders", "--rate"],
        ["init", "--partitions"],
        ["send", "orders", "body", "--time-to-live"],
        ["send", "orders", "body", "--scheduled"],
    ],
    ids=" ".join,
)
def test_numbers_of_other_commands(
    ox: Callable[..., Any], run: Callable[..., Any], command: list[str], number: str
) -> None:
    """Any number gives either success or the documented kind of failure."""
    ox("queue", "create", "orders", "--partitioned")
    check_error_output(run(*command[:-1], f"{command[-1]}={number}"))


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize(
    "command",
    [
        ["queue", "create"],
        ["queue", "delete"],
        ["topic", "create"],
        ["subscription", "create", "news"],
        ["rule", "create", "news", "all"],
        ["send", "orders", "--session-id", "a", "--partition-key"],
        ["receive"],
        ["receive", "news", "--subscription"],
        ["peek"],
        ["deadletter", "purge"],
        ["stats"],
    ],
    ids=" ".join,
)
def test_names(ox: Callable[..., Any], run: Callable[..., Any], command: list[str], name: str) -> None:
    """An invalid name is rejected, and its control characters do not reach the terminal."""
    ox("topic", "create", "news")
    ox("subscription", "create", "news", "all")
    ox("queue", "create", "orders")
    check_error_output(run(*command, name))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(["queue", "create", "list", "q", "--json", "--lock-duration", "5s", "-x", "--", ""]))
)
def test_any_words(run: Callable[..., Any], data: object, words: list[str]) -> None:
    """Commands and options in any order."""
    assert data
    outcome = run(*words)
    assert outcome.code in {0, 1, 2}
    assert "Traceback" not in outcome.err


def test_unexpected_exception_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other exception keeps its traceback: it is a bug to report."""

    def parser() -> argparse.ArgumentParser:
        raise ZeroDivisionError

    monkeypatch.setattr(_run, "make_parser", parser)
    with pytest.raises(ZeroDivisionError):
        _run.main(["stats"])


def test_options_cannot_be_abbreviated(ox: Callable[..., Any], run: Callable[..., Any]) -> None:
    """An abbreviation of an option is rejected: its meaning could change when options are added."""
    assert run("queue", "create", "orders", "--partition").code == 2
    assert ox("queue", "list", "--json").json == []


def test_unreadable_file(ox: Callable[..., Any], run: Callable[..., Any], tmp_path: Any) -> None:
    """The system's error message, on one line."""
    ox("queue", "create", "orders")
    refused = run("send", "orders", "--file", tmp_path / "missing")
    check_error_output(refused)
    assert "missing" in refused.err
    check_error_output(run("stats", "--config", tmp_path / "missing.json"))
    check_error_output(run("stats", "--config", tmp_path))
