# SPDX-License-Identifier: Apache-2.0
"""`oxbus salvage` copies the rows of bulk loads that were not taken over yet, and reports the lost ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus._oxbus import _BulkLoad
from oxbus.cli import main
from oxbus.management import ServiceBusAdministrationClient
from stored_files import flip_bit

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow")

PARTITIONS = 2
ROWS = 100
BODY_BYTES = 10_000
"""Large enough for a file of many runs of about 256 KiB each (docs/format.md)."""

KEYS = [next(f"k{n}" for n in range(99) if oxbus.partition_id(f"k{n}", PARTITIONS) == it) for it in range(PARTITIONS)]
"""A key for each partition."""

NUMBERS = list(range(ROWS))


def load(path: Path, name: str, first: int = 0) -> list[bool]:
    """Load a hundred rows into each partition; return for each whether they were attached now."""
    loading = _BulkLoad(path, "q", name, durability="os")
    bodies = [f"{number:04}".encode() + bytes(BODY_BYTES) for number in range(first, first + ROWS)]
    for key in KEYS:
        loading.push(pa.table({"body": bodies, "partition_key": [key] * ROWS}))
    return [attached for _, _, attached in loading.finish(0)]


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """A closed namespace with a load in each partition that was not taken over yet."""
    path = tmp_path / "bus"
    with Namespace(path, partitions=PARTITIONS, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    assert load(path, "job/0") == [True, True]
    return path


def file_of(path: Path, partition_id: int) -> Path:
    """The file of the load in a partition."""
    (file,) = (path / f"shard-{partition_id:02}" / "attached").glob("*.stage")
    return file


def salvage(bus: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], Path]:
    """Run the command; return its exit code, its report of each partition, and the path of the copy."""
    code = main(["salvage", str(bus), "--json"])
    report = json.loads(capsys.readouterr().out)
    return code, report["partitions"], bus.with_name("bus.salvaged")


def numbers(path: Path, partition_id: int, queue: str = "q") -> list[int]:
    """Receive and delete the messages of a partition; return their numbers in order."""
    with Namespace(path, durability="os") as namespace, ServiceBusClient(namespace) as client:
        assert namespace.recovery
        assert namespace.recovery.waiting_loads == []
        options: dict[str, Any] = {"receive_mode": "receiveanddelete", "max_wait_time": 0}
        receiver = client.get_queue_receiver(queue, partition_id=partition_id, **options)
        return [int(str(message)[:4]) for message in receiver]


def test_rows_that_wait_are_copied(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows become messages of the copy, which knows the name of the load; the original is unchanged."""
    code, report, copy = salvage(bus, capsys)
    assert code == 0
    assert [(it["messages"], it["loaded_rows"], it["losses"]) for it in report] == [(0, ROWS, [])] * PARTITIONS
    assert load(copy, "job/0") == [False, False], "the name is known before the rows are taken over"
    for path in (copy, bus):
        for partition_id in range(PARTITIONS):
            assert numbers(path, partition_id) == NUMBERS
        assert load(path, "job/0") == [False, False]


def test_rows_that_were_taken_over_already_are_not_duplicated(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This happens after a crash between storing them and removing their file."""
    files = {file_of(bus, it): file_of(bus, it).read_bytes() for it in range(PARTITIONS)}
    with Namespace(bus, durability="os"):
        pass
    for path, content in files.items():
        path.write_bytes(content)
    _, report, copy = salvage(bus, capsys)
    assert [it["messages"] for it in report] == [ROWS] * PARTITIONS
    assert numbers(copy, 0) == numbers(copy, 1) == NUMBERS


def test_damaged_runs_are_skipped_and_counted(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flipped bit loses the rows under the same checksum; the others of the file are copied in order."""
    file = file_of(bus, 0)
    flip_bit(file, file.stat().st_size // 2)
    code, (damaged, whole), copy = salvage(bus, capsys)
    assert code == 1
    assert whole["whole"]
    assert not damaged["whole"]
    lost = ROWS - damaged["loaded_rows"]
    assert 0 < lost < ROWS // 2
    assert damaged["losses"] == [f"{lost} rows of the bulk load `job/0` are lost; load them again under another name"]
    found = numbers(copy, 0)
    assert len(found) == ROWS - lost
    assert found == sorted(set(found))
    assert numbers(copy, 1) == NUMBERS


@pytest.mark.parametrize("damage", ["head", "end", "newer"])
def test_file_that_cannot_be_read_is_named(bus: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    """Nothing of it is copied; everything else is."""
    file = file_of(bus, 0)
    content = bytearray(file.read_bytes())
    at = {"head": 20, "end": len(content) - 10, "newer": 8}[damage]
    content[at] ^= 4
    file.write_bytes(bytes(content))
    code, (damaged, _), copy = salvage(bus, capsys)
    assert code == 1
    (loss,) = damaged["losses"]
    assert file.name in loss
    assert ("newer version" if damage == "newer" else "rows of a bulk load are lost") in loss
    assert damaged["loaded_rows"] == 0
    assert (numbers(copy, 0), numbers(copy, 1)) == ([], NUMBERS)


def test_rows_without_a_catalog_get_a_queue(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their files name their entity; the name of the load is still known."""
    (bus / "catalog").write_bytes(b"damaged")
    _, report, copy = salvage(bus, capsys)
    assert [it["loaded_rows"] for it in report] == [ROWS] * PARTITIONS
    with Namespace(copy, durability="os") as namespace:
        (queue,) = ServiceBusAdministrationClient(namespace).list_queues()
    assert queue.name.startswith("salvaged-")
    for partition_id in range(PARTITIONS):
        assert numbers(copy, partition_id, queue.name) == NUMBERS


def test_rows_of_a_deleted_queue_stay_deleted(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Salvage drops the rows of a deleted queue, as an open does."""
    files = {file_of(bus, it): file_of(bus, it).read_bytes() for it in range(PARTITIONS)}
    with Namespace(bus, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).delete_queue("q")
    for path, content in files.items():
        path.write_bytes(content)
    code, report, _ = salvage(bus, capsys)
    assert code == 0
    assert [it["loaded_rows"] for it in report] == [0] * PARTITIONS


def test_text_output(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text output shows how many rows wait in the copy."""
    assert main(["salvage", str(bus)]) == 0
    assert capsys.readouterr().out.count("100 rows of bulk loads become messages when the copy is opened") == 2
