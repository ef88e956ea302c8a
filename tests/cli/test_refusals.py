# SPDX-License-Identifier: Apache-2.0
"""Errors name commands and list existing entities; `--data` may precede the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def some(ox: Callable[..., Any]) -> None:
    """A queue, a topic, its subscription and its rule."""
    ox("queue", "create", "orders")
    ox("topic", "create", "news")
    ox("subscription", "create", "news", "all")


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "queue show nowhere",
            "the queue `nowhere` does not exist; existing queues: orders; create it with `oxbus queue create nowhere`",
        ),
        (
            "queue delete news",
            "the queue `news` does not exist; existing queues: orders; create it with `oxbus queue create news`",
        ),
        (
            "topic update nowhere --user-metadata x",
            "the topic `nowhere` does not exist; existing topics: news; create it with `oxbus topic create nowhere`",
        ),
        (
            "subscription create nowhere all",
            "the topic `nowhere` does not exist; existing topics: news; create it with `oxbus topic create nowhere`",
        ),
        (
            "subscription show news nobody",
            (
                "the subscription `nobody` does not exist; existing subscriptions: all; "
                "create it with `oxbus subscription create news nobody`"
            ),
        ),
        (
            "rule show news all nothing",
            (
                "the rule `nothing` does not exist; existing rules: $Default; "
                "create it with `oxbus rule create news all nothing`"
            ),
        ),
        *[
            (
                f"{command} nowhere",
                (
                    "the queue `nowhere` does not exist; existing entities: orders, news, news/Subscriptions/all; "
                    "create it with `oxbus queue create nowhere`"
                ),
            )
            for command in ("peek", "receive", "stats", "deadletter list", "reservation list")
        ],
        (
            "receive news --subscription nobody",
            (
                "the subscription `nobody` does not exist; existing subscriptions: all; "
                "create it with `oxbus subscription create news nobody`"
            ),
        ),
    ],
)
def test_missing_entity_lists_the_existing_ones(run: Callable[..., Any], command: str, text: str) -> None:
    """The error named `create_queue`, which is not a command (B-020)."""
    refused = run(*command.split())
    assert (refused.code, refused.out, refused.err) == (1, "", f"oxbus: {text}\n")


@pytest.mark.usefixtures("some")
def test_send_to_a_missing_entity(run: Callable[..., Any]) -> None:
    """A send to an entity that does not exist lists the existing ones."""
    refused = run("send", "nowhere", "x")
    assert (refused.code, "existing entities: orders, news" in refused.err) == (1, True)


def test_empty_namespace_has_none(data: Path, run: Callable[..., Any]) -> None:
    """With nothing to list, the error lists `none`."""
    assert data.is_dir()
    assert "existing queues: none; create it with `oxbus queue create orders`" in run("peek", "orders").err


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("receive news", "`oxbus receive TOPIC --subscription NAME`"),
        ("queue create orders", "update that one"),
        ("topic create t --tier basic", "--tier standard"),
    ],
)
def test_refusals_name_no_call(run: Callable[..., Any], command: str, text: str) -> None:
    """Errors name no Python call."""
    refused = run(*command.split())
    assert refused.code == 1
    assert text in refused.err
    assert not any(word in refused.err for word in ("create_queue", "get_", "tier="))


def test_directory_of_a_server(data: Path, run: Callable[..., Any]) -> None:
    """Most often it is `oxbus serve` that has the directory open; a command cannot "own other partitions"."""
    with Namespace(data):
        refused = run("queue", "list")
    assert refused.code == 1
    assert "close it there, or, if that is `oxbus serve`, use --connection-string" in refused.err
    assert "partitions" not in refused.err


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("quue", "unknown command `oxbus quue`; the commands are init, queue, topic, "),
        ("quue", "did you mean `oxbus queue`?"),
        (
            "queue creat orders",
            "unknown command `oxbus queue creat`; the commands are create, show, update, delete, list; ",
        ),
        ("queue creat orders", "did you mean `oxbus queue create`?"),
        ("frobnicate", "unknown command `oxbus frobnicate`; the commands are init"),
    ],
)
def test_unknown_command(run: Callable[..., Any], command: str, text: str) -> None:
    """The error lists the commands and suggests the closest one."""
    refused = run(*command.split())
    assert (refused.code, refused.out) == (2, "")
    assert text in refused.err


@pytest.mark.parametrize(
    "command", [["stats"], ["queue", "list"], ["peek", "orders"], ["deadletter", "list", "orders"]]
)
def test_directory_may_precede_the_command(
    ox: Callable[..., Any], run: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """`oxbus --data X stats` is `oxbus stats --data X`."""
    ox("queue", "create", "orders")
    monkeypatch.delenv("OXBUS_DATA")
    assert run(*command).code == 2
    before, after = run("--data", data, *command), run(*command, "--data", data)
    assert (before.code, before.err) == (0, "")
    assert before == after
    assert run("--data", data, *command, "--data", data).code == 0


def test_directory_before_init(run: Callable[..., Any], tmp_path: Path) -> None:
    """`init` accepts it, too; two different ones are rejected, and a command without a directory fails."""
    path = tmp_path / "bus"
    assert run("--data", path, "init").code == 0
    assert (path / "catalog").exists()
    for arguments, text in (
        (["--data", path, "stats", "--data", tmp_path], "given twice"),
        (["--data", path, "salvage", path], "takes no --data"),
        (["--data", path, "serve", "--memory"], "--memory"),
    ):
        refused = run(*arguments)
        assert (refused.code, text in refused.err) == (2, True)
