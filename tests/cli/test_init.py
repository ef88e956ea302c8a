# SPDX-License-Identifier: Apache-2.0
"""`oxbus init` creates a namespace; no other command does (docs/guide/command-line.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path that does not exist."""
    monkeypatch.delenv("OXBUS_DATA", raising=False)
    return tmp_path / "deep" / "new"


def test_init_creates_a_namespace_with_the_given_partitions(nowhere: Path, run: Callable[..., Any]) -> None:
    """The directory and its parents are created with the requested number of partitions."""
    assert run("init", nowhere, "--partitions", 4, "--json").json == {
        "path": str(nowhere),
        "created": True,
        "partitions": 4,
        "queues": 0,
        "topics": 0,
    }
    with Namespace(nowhere) as namespace:
        assert namespace.partitions == 4


def test_init_does_not_change_a_namespace(data: Path, ox: Callable[..., Any]) -> None:
    """A second call reports the existing namespace."""
    ox("queue", "create", "orders")
    found = ox("init", data, "--json").json
    assert (found["created"], found["partitions"], found["queues"]) == (False, 4, 1)


def test_partitions_are_fixed(data: Path, run: Callable[..., Any]) -> None:
    """Another number of partitions is rejected."""
    refused = run("init", data, "--partitions", 16)
    assert refused.code == 1
    assert "set 4" in refused.err


def test_tier_decides_how_many_partitions(nowhere: Path, run: Callable[..., Any]) -> None:
    """A premium namespace has one partition by default (B-006)."""
    assert run("init", nowhere, "--tier", "premium", "--json").json["partitions"] == 1


def test_tier_may_come_from_the_environment(
    data: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OXBUS_TIER applies to each command without the option, and an invalid value is reported (B-001)."""
    assert data.is_dir()
    monkeypatch.setenv("OXBUS_TIER", "basic")
    assert "basic" in run("topic", "create", "news").err.lower()
    monkeypatch.setenv("OXBUS_TIER", "gold")
    refused = run("queue", "list")
    assert refused.code == 2
    assert "OXBUS_TIER" in refused.err


@pytest.mark.parametrize(
    "command",
    [
        ["queue", "create", "q"],
        ["queue", "list"],
        ["send", "q", "hello"],
        ["receive", "q"],
        ["peek", "q"],
        ["deadletter", "purge", "q"],
        ["stats"],
    ],
    ids=" ".join,
)
def test_other_commands_do_not_create_a_namespace(nowhere: Path, run: Callable[..., Any], command: list[str]) -> None:
    """A missing or empty directory does not change, and the error explains how to create a namespace."""
    for exists in (False, True):
        if exists:
            nowhere.mkdir(parents=True)
        refused = run(*command, "--data", nowhere)
        assert (refused.code, refused.out) == (1, "")
        assert "oxbus init" in refused.err
        assert len(refused.err.splitlines()) == 1
        assert nowhere.exists() is exists
        assert not exists or list(nowhere.iterdir()) == []


def test_a_directory_must_be_named(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `--data` and the variable, the usage is wrong."""
    monkeypatch.delenv("OXBUS_DATA", raising=False)
    for command in (["init"], ["stats"]):
        refused = run(*command)
        assert refused.code == 2
        assert "OXBUS_DATA" in refused.err
