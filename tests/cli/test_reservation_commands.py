# SPDX-License-Identifier: Apache-2.0
"""`oxbus reservation list | cancel`, and the reservations in `oxbus stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace
from reserving import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["queue", "subscription"])
def entity(ox: Callable[..., Any], data: Path, request: pytest.FixtureRequest) -> list[str]:
    """An entity of which the consumer `query` has reserved three of five messages."""
    if request.param == "queue":
        ox("queue", "create", "orders")
        named, path = ["orders"], "orders"
    else:
        ox("topic", "create", "orders")
        ox("subscription", "create", "orders", "all")
        named, path = ["orders", "--subscription", "all"], "orders/Subscriptions/all"
    ox("send", "orders", stdin=b"1\n2\n3\n4\n5\n")
    with Namespace(data) as namespace:
        assert Consumer(namespace, path, "query").reserve(1, 3)["messages"] == 3
    return named


def test_list_shows_reservations(ox: Callable[..., Any], entity: list[str]) -> None:
    """The list is a table or JSON."""
    (info,) = ox("reservation", "list", *entity, "--json").json
    assert info.pop("expires_at_utc") is not None
    assert info == {
        "consumer": "query",
        "number": 1,
        "epoch": 1,
        "completed_number": 0,
        "message_count": 3,
        "state": "live",
    }
    heading, line = ox("reservation", "list", *entity).out.splitlines()
    assert "CONSUMER" in heading
    assert line.split()[:6] == ["query", "1", "1", "0", "3", "live"]
    assert ox("reservation", "list", *entity, "--sub-queue", "deadletter", "--json").json == []


def test_cancelled_messages_can_be_received(ox: Callable[..., Any], entity: list[str]) -> None:
    """The messages are released."""
    assert len(ox("receive", *entity, "--all", "--abandon").out.splitlines()) == 2
    assert ox("reservation", "cancel", *entity, "query").out == "3 messages released\n"
    assert ox("reservation", "cancel", *entity, "query", "--json").json == {"given_back": 0}
    assert len(ox("receive", *entity, "--all").out.splitlines()) == 5
    assert ox("reservation", "list", *entity, "--json").json == []


def test_unknown_consumer_is_reported(run: Callable[..., Any], entity: list[str]) -> None:
    """A mistyped name releases nothing and is reported."""
    done = run("reservation", "cancel", *entity, "quary")
    assert done.code != 0
    assert "no consumer with this name" in done.err


def test_stats_show_reservations(ox: Callable[..., Any], entity: list[str]) -> None:
    """Reservations, if any, follow the entities."""
    found = [one for one in ox("stats", "--json").json["entities"] if one.get("reservations")]
    ((info,),) = [one["reservations"] for one in found]
    assert (info["sub_queue"], info["consumer"], info["message_count"]) == (None, "query", 3)
    tables = ox("stats").out.split("\n\n")
    assert len(tables) == 3
    assert "query" in tables[1]
    ox("reservation", "cancel", *entity, "query")
    assert len(ox("stats").out.split("\n\n")) == 2
