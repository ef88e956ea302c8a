# SPDX-License-Identifier: Apache-2.0
"""`oxbus deadletter list | resubmit | purge` (B-259 to B-270)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["queue", "subscription"])
def entity(ox: Callable[..., Any], request: pytest.FixtureRequest) -> list[str]:
    """An entity with the dead letters "1" to "4", as command arguments."""
    if request.param == "queue":
        ox("queue", "create", "orders", "--partitioned")
        named = ["orders"]
    else:
        ox("topic", "create", "orders", "--partitioned")
        ox("subscription", "create", "orders", "all")
        named = ["orders", "--subscription", "all"]
    for size in range(1, 5):
        ox("send", "orders", str(size), "--property", f"size:int={size}")
    ox("receive", *named, "--all", "--dead-letter", "--reason", "bad")
    return named


def dead(ox: Callable[..., Any], entity: list[str]) -> list[str]:
    """The bodies of the dead letters."""
    return sorted(message["body"] for message in ox("deadletter", "list", *entity, "--json").json_lines)


def test_list_shows_the_reason(ox: Callable[..., Any], entity: list[str]) -> None:
    """The list is a table, or complete JSON."""
    assert {line["dead_letter_reason"] for line in ox("deadletter", "list", *entity, "--json").json_lines} == {"bad"}
    heading, *lines = ox("deadletter", "list", *entity).out.splitlines()
    assert "REASON" in heading
    assert len(lines) == 4
    assert all(" bad " in line for line in lines)


def test_resubmitted_messages_are_received_again(ox: Callable[..., Any], entity: list[str]) -> None:
    """All of them, as new messages without the reason (B-270)."""
    assert ox("deadletter", "resubmit", *entity).out == "4 dead letters resubmitted\n"
    assert dead(ox, entity) == []
    found = ox("receive", *entity, "--all", "--json").json_lines
    assert sorted(message["body"] for message in found) == ["1", "2", "3", "4"]
    assert {message["dead_letter_reason"] for message in found} == {None}


def test_condition_selects_messages_to_resubmit(ox: Callable[..., Any], entity: list[str]) -> None:
    """A SQL condition with its parameters; the other messages stay."""
    choice = ["--where", "size > @least", "--parameter", "least:int=2"]
    assert ox("deadletter", "resubmit", *entity, *choice, "--rate", 1000, "--json").json == {"resubmitted": 2}
    assert dead(ox, entity) == ["1", "2"]


def test_purged_messages_are_gone(ox: Callable[..., Any], entity: list[str]) -> None:
    """By condition, by number, by age, then all; messages of the entity itself stay."""
    ox("send", "orders", "alive")
    assert ox("deadletter", "purge", *entity, "--where", "size = 4").out == "1 dead letter deleted\n"
    assert dead(ox, entity) == ["1", "2", "3"]
    assert ox("deadletter", "purge", *entity, "--limit", 1, "--json").json == {"deleted": 1}
    assert ox("deadletter", "purge", *entity, "--before", "2020-01-01", "--json").json == {"deleted": 0}
    assert len(dead(ox, entity)) == 2
    assert ox("deadletter", "purge", *entity, "--json").json == {"deleted": 2}
    assert dead(ox, entity) == []
    assert ox("receive", *entity, "--all").out == "alive\n"


@pytest.mark.parametrize("verb", ["resubmit", "purge"])
def test_limit_of_zero_does_nothing(ox: Callable[..., Any], entity: list[str], verb: str) -> None:
    """Zero is a valid limit."""
    ox("deadletter", verb, *entity, "--limit", 0)
    assert dead(ox, entity) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("verb", ["resubmit", "purge"])
def test_condition_that_does_not_parse_changes_nothing(
    ox: Callable[..., Any], run: Callable[..., Any], entity: list[str], verb: str
) -> None:
    """The error shows where parsing failed."""
    refused = run("deadletter", verb, *entity, "--where", "size >")
    assert (refused.code, refused.out) == (1, "")
    assert dead(ox, entity) == ["1", "2", "3", "4"]
