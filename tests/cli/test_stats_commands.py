# SPDX-License-Identifier: Apache-2.0
"""`oxbus stats`: counts of entities and the health of partitions (B-097, B-098, B-389 to B-394)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def busy(ox: Callable[..., Any]) -> None:
    """A queue and a topic, with messages in several states."""
    ox("queue", "create", "orders", "--partitioned", "--max-size-in-megabytes", 2048)
    ox("send", "orders", "--partition-key", "k", stdin=b"1\n2\n3\n4\n")
    ox("receive", "orders", "--defer")
    ox("receive", "orders", "--dead-letter")
    ox("send", "orders", "later", "--scheduled", "1h")
    ox("topic", "create", "news")
    ox("subscription", "create", "news", "all")
    ox("send", "news", "hello")


@pytest.mark.usefixtures("busy")
def test_counts_of_each_entity(ox: Callable[..., Any]) -> None:
    """Queues, topics and subscriptions, each with its counts, and sizes per partition and in total (B-035)."""
    entities = {entity["name"]: entity for entity in ox("stats", "--json").json["entities"]}
    assert list(entities) == ["orders", "news", "news/Subscriptions/all"]
    counts = {name: number for name, number in entities["orders"].items() if name.endswith("_message_count")}
    assert counts == {
        "active_message_count": 3,
        "locked_message_count": 0,
        "deferred_message_count": 1,
        "scheduled_message_count": 1,
        "dead_letter_message_count": 1,
        "transfer_message_count": 0,
        "transfer_dead_letter_message_count": 0,
    }
    assert entities["orders"]["max_size_in_megabytes"] == 2048
    assert entities["orders"]["total_max_size_in_megabytes"] == 2048 * 4
    assert entities["news/Subscriptions/all"]["active_message_count"] == 1


@pytest.mark.usefixtures("busy")
def test_table_has_a_line_for_each(ox: Callable[..., Any]) -> None:
    """Entities first, then the partitions."""
    entities, partitions = ox("stats").out.split("\n\n")
    rows = [line.split() for line in entities.splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        ["queue", "orders", "3"],
        ["topic", "news", "-"],
        ["subscription", "news/Subscriptions/all", "1"],
    ]
    assert {"2,048", "8,192"} <= set(rows[0])
    assert [line.split() for line in partitions.splitlines()[1:]] == [[number, "healthy", "-"] for number in "0123"]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("name", ["orders", "ORDERS", "news/subscriptions/all"])
def test_one_entity_by_partition(ox: Callable[..., Any], name: str) -> None:
    """Each partition of one entity; names are found in any letter case (B-018)."""
    (entity,) = ox("stats", name, "--json").json["entities"]
    assert entity["name"].lower() == name.lower()
    assert (
        sum(partition["active_message_count"] for partition in entity["partitions"]) == entity["active_message_count"]
    )
    lines = ox("stats", name).out.split("\n\n")[1].splitlines()
    assert len(lines) == 1 + len(entity["partitions"])


@pytest.mark.usefixtures("busy")
def test_unknown_entity(run: Callable[..., Any]) -> None:
    """An unknown name is an error."""
    refused = run("stats", "nothing")
    assert (refused.code, refused.out) == (1, "")
    assert "nothing" in refused.err


@pytest.mark.usefixtures("busy")
def test_partition_out_of_service_is_reported(data: Path, run: Callable[..., Any]) -> None:
    """The table is complete, and the exit code and standard error report the partition."""
    (journal,) = (data / "shard-03").glob("*.snapshot")
    journal.write_bytes(b"\xff" * 8192)
    found = run("stats", "--json")
    assert found.code == 1
    assert "3" in found.err
    shown = json.loads(found.out)
    assert [part["partition_id"] for part in shown["partitions"] if part["status"] != "healthy"] == [3]
    assert shown["partitions"][3]["reason"]
    availability = {entity["name"]: entity["availability_status"] for entity in shown["entities"]}
    assert availability["orders"] == "Limited"


def test_configuration_file_is_shown_in_memory(run: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> None:
    """The entities of a file can be shown without a directory."""
    monkeypatch.delenv("OXBUS_DATA", raising=False)
    file = tmp_path / "config.json"
    queue = {"Name": "orders", "Properties": {"EnablePartitioning": True}}
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [queue], "Topics": []}]}}))
    (entity,) = run("stats", "--config", file, "--json").json["entities"]
    assert (entity["name"], entity["enable_partitioning"]) == ("orders", True)
    assert list(tmp_path.iterdir()) == [file]
    assert run("stats", "--config", file, "--data", tmp_path).code == 2


def test_init_accepts_a_configuration_file(run: Callable[..., Any], tmp_path: Path) -> None:
    """Its entities are created; an invalid file is one line that names the position."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Queues": [{"Name": "orders"}]}]}}))
    assert run("init", tmp_path / "bus", "--config", file, "--json").json["queues"] == 1
    assert [queue["name"] for queue in run("queue", "list", "--data", tmp_path / "bus", "--json").json] == ["orders"]
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Queues": [{"Nome": "orders"}]}]}}))
    refused = run("init", tmp_path / "bus", "--config", file)
    assert refused.code == 1
    assert "UserConfig.Namespaces[0].Queues[0].Nome" in refused.err
