# SPDX-License-Identifier: Apache-2.0
"""`disk_bytes` of the statistics counts the files of the partitions: journals and snapshots.

Snapshots were omitted, so a directory that was closed and opened again reported 0 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS

if TYPE_CHECKING:
    from pathlib import Path

    from durable_bus import Bus

BODY = "x" * 1000


def file_bytes(path: Path) -> int:
    """Bytes of all files of the partitions, added up independently."""
    return sum(file.stat().st_size for file in path.glob("shard-*/*") if file.name != "owner")


@pytest.fixture
def filled(bus: Bus) -> Bus:
    """A namespace with a hundred messages of 1 KB."""
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send(*(BODY for _ in range(100)))
    return bus


@pytest.mark.parametrize("way", WAYS)
def test_bytes_are_those_of_the_files(filled: Bus, way: str) -> None:
    """After each kind of end, and after a snapshot of an open namespace."""
    filled.reopen(way)
    assert filled.namespace.statistics()["disk_bytes"] == file_bytes(filled.path)
    assert filled.namespace.statistics()["disk_bytes"] > 100 * len(BODY)
    filled.namespace.checkpoint()
    assert filled.namespace.statistics()["disk_bytes"] == file_bytes(filled.path)


def test_bytes_follow_the_stored_messages(filled: Bus) -> None:
    """After a clean end without the messages the value is smaller, and an empty namespace still has its first pages."""
    filled.reopen("close")
    full = filled.namespace.statistics()["disk_bytes"]
    filled.receiver().complete_messages(filled.take())
    filled.reopen("close")
    empty = filled.namespace.statistics()["disk_bytes"]
    assert 0 < empty < full - 100 * len(BODY)
    assert empty == file_bytes(filled.path)
