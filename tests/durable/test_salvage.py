# SPDX-License-Identifier: Apache-2.0
"""`oxbus salvage` copies the intact messages of a damaged namespace and reports the lost ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.cli import main
from oxbus.management import ServiceBusAdministrationClient
from stored_files import flip_bit, tree

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 2
CONTENT_AT = 4_096 + 8 + 2
"""A byte of a snapshot after its first page and the header of its first chunk (docs/format.md)."""


def key_in(partition_id: int) -> str:
    """A partition key that maps to the given one of two partitions."""
    return next(f"k{n}" for n in range(99) if oxbus.partition_id(f"k{n}", PARTITIONS) == partition_id)


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """A namespace with ten messages in each partition, one of them completed."""
    path = tmp_path / "bus"
    with Namespace(path, partitions=PARTITIONS) as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=True)
        # Later events stay in the journal; no snapshot holds them.
        with client.get_queue_sender("orders") as sender:
            for partition_id in range(PARTITIONS):
                for number in range(10):
                    body = f"body-{partition_id}-{number}"
                    sender.send_messages(ServiceBusMessage(body, partition_key=key_in(partition_id)))
        with client.get_queue_receiver("orders", partition_id=0) as receiver:
            (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=0)
            receiver.complete_message(message)
    return path


def bodies(path: Path) -> list[str]:
    """All messages of the queue, sorted by body."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        assert [health.status for health in namespace.partition_health()] == ["healthy"] * PARTITIONS
        with client.get_queue_receiver("orders") as receiver:
            found = []
            while messages := receiver.peek_messages(max_message_count=100):
                found += [str(message) for message in messages]
    return sorted(found)


def salvage(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Run the command; return its exit code and output."""
    code = main(["salvage", *map(str, arguments), "--json"])
    printed = capsys.readouterr().out
    return code, json.loads(printed) if printed else None


def test_undamaged_namespace_is_copied_completely(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without damage the copy holds the same messages, and the original is unchanged."""
    before = bodies(bus)
    files = tree(bus)
    code, report = salvage(capsys, bus)
    assert code == 0
    assert [partition["messages"] for partition in report["partitions"]] == [9, 10]
    assert tree(bus) == files
    copy = bus.with_name("bus.salvaged")
    assert bodies(copy) == before
    assert len(before) == 19


def test_intact_messages_of_a_damaged_partition_are_copied(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a lost snapshot only its messages are lost; the other partition is complete."""
    for snapshot in (bus / "shard-00").glob("*.snapshot"):
        flip_bit(snapshot, CONTENT_AT)
    code, report = salvage(capsys, bus)
    damaged, whole = report["partitions"]
    assert code == 1
    assert not damaged["whole"]
    assert damaged["losses"]
    assert whole == {"partition_id": 1, "messages": 10, "loaded_rows": 0, "whole": True, "losses": []}
    found = bodies(bus.with_name("bus.salvaged"))
    assert [body for body in found if body.startswith("body-1")] == [f"body-1-{number}" for number in range(10)]


def test_target_must_be_empty(bus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is overwritten."""
    target = tmp_path / "taken"
    target.mkdir()
    (target / "file").write_text("mine")
    assert main(["salvage", str(bus), str(target)]) == 2
    assert str(target) in capsys.readouterr().err
    assert [path.name for path in target.iterdir()] == ["file"]


def test_open_namespace_is_refused(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the owner."""
    with Namespace(bus):
        assert main(["salvage", str(bus)]) == 2
    assert "in use" in capsys.readouterr().err
