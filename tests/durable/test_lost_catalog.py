# SPDX-License-Identifier: Apache-2.0
"""A namespace without a readable catalog is damaged, never "not a namespace": its messages can still be saved (R-22).

The error was "not a namespace" and advised an empty directory, which invites deleting it with its messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, bodies
from oxbus import Namespace, ServiceBusClient
from oxbus.cli import main
from oxbus.exceptions import InvalidOperationError, StoreCorruptError
from stored_files import flip_bit, tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus

TEXTS = [str(number) for number in range(20)]
BITS = [0, 7, 8, 9, 12, 20, 33, 41, 46, 60]
"""Bytes of the catalog in which one bit is flipped: magic, version, and the rest (docs/format.md)."""


def cut(catalog: Path) -> None:
    """Remove its last bytes."""
    catalog.write_bytes(catalog.read_bytes()[:-9])


def garble(catalog: Path) -> None:
    """Overwrite it with foreign bytes."""
    catalog.write_bytes(b"a shopping list, nothing else, with more than forty-eight bytes in it")


def zero(catalog: Path) -> None:
    """Overwrite it with zeros, as a lost page reads."""
    catalog.write_bytes(bytes(catalog.stat().st_size))


def turn_bit(position: int) -> Callable[[Path], None]:
    """Flip one bit of a byte."""

    def turn(catalog: Path) -> None:
        flip_bit(catalog, position)

    turn.__name__ = f"bit of byte {position}"
    return turn


def empty(catalog: Path) -> None:
    """Truncate it to zero bytes."""
    catalog.write_bytes(b"")


def remove(catalog: Path) -> None:
    """Remove it."""
    catalog.unlink()


DAMAGE = [empty, cut, garble, zero, remove, *map(turn_bit, BITS)]


@pytest.fixture
def filled(bus: Bus) -> Bus:
    """A namespace with twenty messages, spread over its partitions."""
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send(*TEXTS)
    return bus


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_namespace_without_catalog_is_damaged_and_can_be_salvaged(
    filled: Bus, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the damage and the command, which copies every message; the directory stays as it is."""
    filled.close()
    path = filled.path
    damage(path / "catalog")
    before = tree(path)
    with pytest.raises(StoreCorruptError, match=re.escape(f"oxbus salvage {path}")) as refusal:
        Namespace(path)
    text = str(refusal.value)
    assert "catalog" in text
    assert "empty directory" not in text
    assert tree(path) == before
    assert main(["stats", "--data", str(path)]) == 1
    assert f"oxbus salvage {path}" in capsys.readouterr().err
    assert main(["salvage", str(path)]) == 0
    assert tree(path) == before
    found = []
    with (
        Namespace(path.with_name(f"{path.name}.salvaged")) as namespace,
        ServiceBusClient(namespace) as client,
        client.get_queue_receiver("salvaged-1", max_wait_time=0) as receiver,
    ):
        for message in receiver:
            found.append(str(message))
            receiver.complete_message(message)
    assert sorted(found) == sorted(TEXTS)


@pytest.mark.parametrize("way", WAYS)
def test_missing_catalog_is_found_after_each_kind_of_end(filled: Bus, way: str) -> None:
    """With snapshots or journals, a directory with messages does not count as empty."""
    filled.stop(way)
    (filled.path / "catalog").unlink()
    with pytest.raises(StoreCorruptError, match="missing"):
        Namespace(filled.path)


def test_a_restored_catalog_brings_all_back(filled: Bus) -> None:
    """The other advice works, too: the catalog of a copy opens the namespace."""
    filled.close()
    copy = (filled.path / "catalog").read_bytes()
    garble(filled.path / "catalog")
    with pytest.raises(StoreCorruptError, match="copy"):
        Namespace(filled.path)
    (filled.path / "catalog").write_bytes(copy)
    filled.open()
    assert sorted(bodies(filled.peek())) == sorted(TEXTS)


def test_a_file_named_catalog_is_no_namespace(tmp_path: Path) -> None:
    """Without partitions beside it, a file of that name belongs to another program."""
    home = tmp_path / "home"
    home.mkdir()
    garble(home / "catalog")
    before = tree(home)
    with pytest.raises(InvalidOperationError, match="not a namespace"):
        Namespace(home)
    assert tree(home) == before


def test_spark_reports_it_too(filled: Bus) -> None:
    """The driver checks before any task opens a partition."""
    pytest.importorskip("pyspark")
    from oxbus.spark.owned import check_namespace  # noqa: PLC0415 -- needs pyspark

    filled.close()
    (filled.path / "catalog").unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(f"oxbus salvage {filled.path}")):
        check_namespace(str(filled.path))
