# SPDX-License-Identifier: Apache-2.0
"""Opening an unusable directory raises an error that names it, and does not change a byte of it."""

from __future__ import annotations

import os
import re
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from oxbus import Namespace
from oxbus.exceptions import InvalidOperationError, ServiceBusError, StoreCorruptError
from stored_files import flip_bit, shard, tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFUSALS = (ServiceBusError, OSError)
"""Possible errors for a failure of the system; the text must name the path."""


@pytest.fixture
def closed(bus: Bus) -> Bus:
    """A closed namespace with a queue and eight messages."""
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send(*(str(number) for number in range(8)))
    bus.close()
    return bus


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Open a path, expect an error that names it and an unchanged directory; return the text of the error."""

    def refused(path: Path, expected: Any, **options: Any) -> str:
        before = tree(tmp_path)
        with pytest.raises(expected, match=re.escape(str(path))) as refusal:
            Namespace(str(path), **options)
        assert tree(tmp_path) == before
        return str(refusal.value)

    return refused


def opens_intact(bus: Bus) -> bool:
    """Whether the namespace opens and has its messages."""
    bus.open()
    intact = sorted(bodies(bus.peek())) == [str(number) for number in range(8)]
    bus.close()
    return intact


def test_directory_with_foreign_files(tmp_path: Path, refused: Callable[..., str]) -> None:
    """A directory that has files but no catalog is not taken over (docs/format.md)."""
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "notes.txt").write_text("mine")
    (home / "deep" / "more.txt").write_text("mine too")
    refused(home, InvalidOperationError)
    refused(home, InvalidOperationError, partitions=4, durability="os")


def test_namespace_without_its_catalog(closed: Bus, refused: Callable[..., str]) -> None:
    """Shards without a catalog do not count as an empty namespace (docs/format.md)."""
    catalog = closed.path / "catalog"
    moved = closed.path.parent / "moved"
    catalog.rename(moved)
    refused(closed.path, StoreCorruptError)
    moved.rename(catalog)
    assert opens_intact(closed)


@pytest.mark.parametrize("part", ["store id", "change", "length", "checksum", "content", "end", "reserved"])
def test_damaged_catalog(closed: Bus, refused: Callable[..., str], part: str) -> None:
    """One changed bit of the catalog is detected; once it is restored, the namespace opens (docs/format.md)."""
    catalog = closed.path / "catalog"
    size = catalog.stat().st_size
    assert size > 60
    position = {
        "reserved": 12,
        "store id": 20,
        "change": 33,
        "length": 41,
        "checksum": 46,
        "content": (48 + size) // 2,
        "end": size - 1,
    }[part]
    flip_bit(catalog, position)
    refused(closed.path, StoreCorruptError)
    flip_bit(catalog, position)
    assert opens_intact(closed)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_short_catalog(closed: Bus, refused: Callable[..., str], share: float) -> None:
    """A truncated or empty catalog is damaged, not empty (docs/format.md)."""
    catalog = closed.path / "catalog"
    data = catalog.read_bytes()
    catalog.write_bytes(data[: int(len(data) * share)])
    refused(closed.path, StoreCorruptError)
    catalog.write_bytes(data)
    assert opens_intact(closed)


def test_catalog_of_another_program(closed: Bus, refused: Callable[..., str]) -> None:
    """A file that is named like a catalog but has another format is rejected (docs/format.md)."""
    catalog = closed.path / "catalog"
    data = catalog.read_bytes()
    catalog.write_bytes(b"a shopping list, nothing else, with more than forty-eight bytes in it")
    refused(closed.path, StoreCorruptError)
    catalog.write_bytes(data)
    assert opens_intact(closed)


def test_catalog_of_a_newer_version(closed: Bus, refused: Callable[..., str]) -> None:
    """A catalog of a newer version is rejected as such, not as damage (docs/format.md)."""
    catalog = closed.path / "catalog"
    data = catalog.read_bytes()
    assert struct.unpack_from("<H", data, 8) == (2,)
    catalog.write_bytes(data[:8] + struct.pack("<H", 4) + data[10:])
    text = refused(closed.path, InvalidOperationError)
    assert "version" in text
    assert "format=4" in text.replace(str(closed.path), "")
    catalog.write_bytes(data)
    assert opens_intact(closed)


@pytest.mark.parametrize("partitions", [1, 3, 5, 16])
def test_other_number_of_partitions(closed: Bus, refused: Callable[..., str], partitions: int) -> None:
    """The number of partitions is fixed at creation; another number is an invalid operation (B-008)."""
    text = refused(closed.path, InvalidOperationError, partitions=partitions)
    assert "4" in text.replace(str(closed.path), "")
    assert opens_intact(closed)


@pytest.mark.parametrize("options", [{"partitions": 0}, {"partitions": 65}, {"durability": "memory"}])
def test_bad_option_makes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    """A rejected option is rejected before anything is written (docs/format.md)."""
    with pytest.raises((InvalidOperationError, ValueError)):
        Namespace(str(tmp_path / "new" / "bus"), **options)
    assert tree(tmp_path) == {}


def test_path_of_a_file(tmp_path: Path, refused: Callable[..., str]) -> None:
    """A path that is a file is rejected, and the file does not change (docs/format.md)."""
    file = tmp_path / "file"
    file.write_text("mine")
    refused(file, REFUSALS)


def test_path_below_a_file(tmp_path: Path, refused: Callable[..., str]) -> None:
    """A directory that cannot be created is an error that names it, for every user (docs/format.md)."""
    (tmp_path / "file").write_text("mine")
    refused(tmp_path / "file" / "bus", REFUSALS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; see the test of a path below a file")
@pytest.mark.parametrize("exists", [True, False])
def test_read_only_directory(closed: Bus, tmp_path: Path, refused: Callable[..., str], exists: bool) -> None:
    """A directory without the right to write is an error that names it (docs/format.md)."""
    locked = closed.path if exists else tmp_path / "locked"
    locked.mkdir(exist_ok=True)
    # An existing namespace needs the right in its directory, a new one in the parent.
    places = [locked, *sorted(path for path in locked.rglob("*") if path.is_dir())]
    files = [path for path in locked.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0o444)
    for path in places:
        path.chmod(0o555)
    try:
        refused(locked if exists else locked / "bus", REFUSALS)
    finally:
        for path in places:
            path.chmod(0o755)
        for path in files:
            path.chmod(0o644)
    assert opens_intact(closed)


def test_empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path is rejected; it does not mean the working directory (docs/format.md)."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((*REFUSALS, ValueError)):
        Namespace("")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    ["memory://shop", "file:///var/lib/shop", "Endpoint=sb://localhost;UseDevelopmentEmulator=true", "sb://localhost"],
)
def test_connection_string_is_not_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """`Namespace("memory://shop")` made a directory `memory:` with a `shop` in it, and its messages were kept."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="from_connection_string"):
        Namespace(text)
    assert tree(tmp_path) == {}


def test_directory_that_was_deleted(closed: Bus) -> None:
    """A namespace whose directory was deleted is new and empty: no state is kept elsewhere (docs/format.md)."""
    shutil.rmtree(closed.path)
    closed.open()
    assert list(closed.admin.list_queues()) == []
    assert shard(closed.path, 0).is_dir()
