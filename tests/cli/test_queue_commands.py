# SPDX-License-Identifier: Apache-2.0
"""`oxbus queue create | show | update | list | delete` (B-022 to B-033)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_created_queue_exists(data: Path, ox: Callable[..., Any]) -> None:
    """A program finds the queue with the options of the command line."""
    ox("queue", "create", "orders", "--partitioned", "--lock-duration", "30s", "--max-delivery-count", 3)
    with Namespace(data) as namespace:
        queue = ServiceBusAdministrationClient(namespace).get_queue("orders")
    assert queue.enable_partitioning is True
    assert queue.lock_duration == timedelta(seconds=30)
    assert queue.max_delivery_count == 3


def test_options_have_defaults(ox: Callable[..., Any]) -> None:
    """The defaults of the API: not partitioned, a minute, ten deliveries (B-022)."""
    queue = ox("queue", "create", "orders", "--json").json
    assert queue["enable_partitioning"] is False
    assert queue["lock_duration"] == "PT60S"
    assert queue["max_delivery_count"] == 10
    assert queue["default_message_time_to_live"] == "P10675199DT2H48M5.4775807S"


@pytest.mark.parametrize("written", ["90s", "1m30s", "PT1M30S", "90", "90000ms"])
def test_durations_have_several_formats(ox: Callable[..., Any], written: str) -> None:
    """With units, as ISO 8601, and as a number of seconds."""
    queue = ox("queue", "create", "orders", "--lock-duration", written, "--json").json
    assert queue["lock_duration"] == "PT90S"


def test_total_size_is_that_of_all_partitions(ox: Callable[..., Any]) -> None:
    """Both the size of a partition and that of all of them are shown (B-035)."""
    sizes = ("max_size_in_megabytes", "total_max_size_in_megabytes")
    spread = ox("queue", "create", "spread", "--partitioned", "--max-size-in-megabytes", 2048, "--json").json
    assert [spread[size] for size in sizes] == [2048, 2048 * 4]
    single = ox("queue", "create", "single", "--max-size-in-megabytes", 2048, "--json").json
    assert [single[size] for size in sizes] == [2048, 2048]


def test_update_changes_only_the_given_options(ox: Callable[..., Any]) -> None:
    """All other options keep their values, and a flag can be reset."""
    created = ox("queue", "create", "orders", "--partitioned", "--dead-lettering-on-message-expiration", "--json").json
    updated = ox(
        "queue", "update", "orders", "--no-dead-lettering-on-message-expiration", "--lock-duration", "2m", "--json"
    ).json
    assert updated == created | {"dead_lettering_on_message_expiration": False, "lock_duration": "PT120S"}
    assert ox("queue", "show", "orders", "--json").json == updated


def test_forwarding_is_set_and_cleared(ox: Callable[..., Any]) -> None:
    """An empty string ends it (B-331)."""
    ox("queue", "create", "inbox")
    assert ox("queue", "create", "orders", "--forward-to", "inbox", "--json").json["forward_to"] == "inbox"
    assert ox("queue", "update", "orders", "--forward-to", "", "--json").json["forward_to"] is None


def test_never_removes_a_duration(ox: Callable[..., Any]) -> None:
    """`never` removes a duration."""
    ox("queue", "create", "orders", "--default-message-time-to-live", "1h")
    queue = ox("queue", "update", "orders", "--default-message-time-to-live", "never", "--json").json
    assert queue["default_message_time_to_live"] == "P10675199DT2H48M5.4775807S"
    assert "never" in ox("queue", "show", "orders").out


def test_fixed_option_cannot_be_changed(run: Callable[..., Any], ox: Callable[..., Any]) -> None:
    """The error is reported, and nothing changed (B-008)."""
    before = ox("queue", "create", "orders", "--json").json
    refused = run("queue", "update", "orders", "--requires-session", "--lock-duration", "10s")
    assert (refused.code, refused.out) == (1, "")
    assert "requires_session" in refused.err
    assert ox("queue", "show", "orders", "--json").json == before


def test_update_without_an_option_is_wrong_usage(run: Callable[..., Any], ox: Callable[..., Any]) -> None:
    """There is nothing to change."""
    ox("queue", "create", "orders")
    assert run("queue", "update", "orders").code == 2


def test_list_shows_all_queues(ox: Callable[..., Any]) -> None:
    """The list is a table with a line for each queue, or one JSON list."""
    assert ox("queue", "list", "--json").json == []
    for name in ("b", "a"):
        ox("queue", "create", name, "--partitioned")
    assert [queue["name"] for queue in ox("queue", "list", "--json").json] == ["a", "b"]
    heading, *lines = ox("queue", "list").out.splitlines()
    assert heading.split()[:2] == ["NAME", "PARTITIONED"]
    assert [line.split()[:2] for line in lines] == [["a", "yes"], ["b", "yes"]]


def test_deleted_queue_is_gone(run: Callable[..., Any], ox: Callable[..., Any]) -> None:
    """Afterwards, showing it and deleting it again are errors."""
    ox("queue", "create", "orders")
    assert ox("queue", "delete", "orders", "--json").json == {"deleted": "orders"}
    for verb in ("show", "delete"):
        refused = run("queue", verb, "orders")
        assert (refused.code, refused.out) == (1, "")
        assert "orders" in refused.err
