# SPDX-License-Identifier: Apache-2.0
"""A damaged shard takes one partition out of service: the others work, and the damaged files are not overwritten.

Each test repairs the damage at the end and finds every acknowledged message.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from durable_bus import PARTITIONS, Bus, bodies
from oxbus.exceptions import PartitionUnavailableError
from oxbus.management import EntityAvailabilityStatus
from stored_files import contents, flip_bit, journals, places_of, shard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BAD = 3
OTHER = 2
FIRST = b"the first message of partition 3"


def flipped(path: Path) -> Callable[[], None]:
    """Change one bit of a message wherever it is stored."""
    places = places_of(shard(path, BAD), FIRST)

    def flip() -> None:
        for file, position in places:
            flip_bit(file, position)

    flip()
    return flip


def moved_away(path: Path) -> Callable[[], None]:
    """Move the whole shard away."""
    moved = path.parent / "moved"
    shard(path, BAD).rename(moved)

    def repair() -> None:
        shutil.rmtree(shard(path, BAD), ignore_errors=True)
        moved.rename(shard(path, BAD))

    return repair


def emptied(path: Path) -> Callable[[], None]:
    """Move the files that hold messages away."""
    moved = path.parent / "moved"
    moved.mkdir()
    for name in contents(shard(path, BAD)):
        (shard(path, BAD) / name).rename(moved / name)

    def repair() -> None:
        for file in moved.iterdir():
            file.rename(shard(path, BAD) / file.name)

    return repair


def cut_to_nothing(path: Path) -> Callable[[], None]:
    """Truncate the files that hold messages to zero bytes."""
    files = {shard(path, BAD) / name: (shard(path, BAD) / name).read_bytes() for name in contents(shard(path, BAD))}
    for file in files:
        file.write_bytes(b"")

    def repair() -> None:
        for file, data in files.items():
            file.write_bytes(data)

    return repair


def of_a_newer_version(path: Path) -> Callable[[], None]:
    """Change the version in the files to a newer one."""
    files = [shard(path, BAD) / name for name in contents(shard(path, BAD))]

    def flip() -> None:
        for file in files:
            flip_bit(file, 8)

    flip()
    return flip


DAMAGES = {
    "flipped bit": flipped,
    "shard gone": moved_away,
    "files gone": emptied,
    "files empty": cut_to_nothing,
    "newer version": of_a_newer_version,
}


@pytest.fixture
def filled(bus: Bus, key_of: Callable[..., str]) -> Bus:
    """An open bus with five messages in each partition, each acknowledged before the next was sent."""
    bus.admin.create_queue("q", enable_partitioning=True)
    for partition_id in range(PARTITIONS):
        key = key_of(partition_id)
        bus.send(f"the first message of partition {partition_id}", partition_key=key)
        bus.send(*(f"{partition_id}.{number}" for number in range(4)), partition_key=key)
    return bus


def check_others_work(bus: Bus, bad: set[int], key_of: Callable[..., str]) -> None:
    """Open the damaged namespace and check that only the `bad` partitions are out of service."""
    before = {partition_id: contents(shard(bus.path, partition_id)) for partition_id in bad}
    namespace = bus.open()
    assert namespace.recovery is not None
    assert sorted(namespace.recovery.corrupt_partitions) == sorted(bad)
    health = {entry.partition_id: entry for entry in namespace.partition_health()}
    for partition_id in range(PARTITIONS):
        expected = "offline" if partition_id in bad else "healthy"
        assert health[partition_id].status == expected
        if partition_id in bad:
            assert f"shard-{partition_id:02}" in (health[partition_id].reason or "")
        else:
            assert health[partition_id].reason is None
    for partition_id in range(PARTITIONS):
        if partition_id in bad:
            with pytest.raises(PartitionUnavailableError) as refusal:
                bus.send("refused", partition_key=key_of(partition_id))
            assert refusal.value.is_transient
        else:
            bus.send("accepted", partition_key=key_of(partition_id))
    good = [partition_id for partition_id in range(PARTITIONS) if partition_id not in bad]
    runtime = bus.runtime()
    assert runtime.availability_status == EntityAvailabilityStatus.LIMITED
    assert [partition.available for partition in runtime.partitions] == [p in good for p in range(PARTITIONS)]
    assert runtime.total_message_count == 6 * len(good)
    with pytest.raises(PartitionUnavailableError):
        bus.admin.create_queue("new", enable_partitioning=True)
    messages = bus.take()
    assert {message.partition_id for message in messages} == set(good)
    assert len(messages) == 6 * len(good)
    bus.receiver().complete_messages(messages)
    bus.namespace.checkpoint()
    bus.close()
    assert {partition_id: contents(shard(bus.path, partition_id)) for partition_id in bad} == before


def check_mended(bus: Bus, bad: set[int]) -> None:
    """Open the repaired namespace and check that the partitions that were out of service are complete."""
    namespace = bus.open()
    assert namespace.recovery is not None
    assert list(namespace.recovery.corrupt_partitions) == []
    assert {entry.status for entry in namespace.partition_health()} == {"healthy"}
    expected = sorted(
        body
        for partition_id in bad
        for body in (
            f"the first message of partition {partition_id}",
            *(f"{partition_id}.{number}" for number in range(4)),
        )
    )
    assert sorted(bodies(bus.take())) == expected
    assert bus.runtime().availability_status == EntityAvailabilityStatus.AVAILABLE


@pytest.mark.parametrize("way", ["close", "crash"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_shard_is_offline_and_untouched(filled: Bus, key_of: Callable[..., str], damage: str, way: str) -> None:
    """Damage takes its partition offline by name, loses nothing elsewhere and is not overwritten (B-093, B-099)."""
    filled.stop(way)
    repair = DAMAGES[damage](filled.path)
    check_others_work(filled, {BAD}, key_of)
    repair()
    check_mended(filled, {BAD})


@pytest.mark.parametrize("way", ["close", "crash"])
def test_swapped_shards_are_offline(filled: Bus, key_of: Callable[..., str], way: str) -> None:
    """Two swapped shards are both out of service: messages never show in another partition (B-062)."""
    filled.stop(way)

    def swap() -> None:
        moved = filled.path.parent / "moved"
        shard(filled.path, BAD).rename(moved)
        shard(filled.path, OTHER).rename(shard(filled.path, BAD))
        moved.rename(shard(filled.path, OTHER))

    swap()
    check_others_work(filled, {OTHER, BAD}, key_of)
    swap()
    check_mended(filled, {OTHER, BAD})


@pytest.mark.parametrize("way", ["close", "crash"])
def test_shard_of_another_namespace_is_offline(
    filled: Bus, make_bus: Callable[..., Bus], key_of: Callable[..., str], way: str
) -> None:
    """A shard of another namespace with the right number is rejected, and its messages are not shown (B-103)."""
    other = make_bus("other")
    other.open()
    other.admin.create_queue("q", enable_partitioning=True)
    other.send("foreign", partition_key=key_of(BAD))
    other.stop(way)
    filled.stop(way)
    repair = moved_away(filled.path)
    shutil.copytree(shard(other.path, BAD), shard(filled.path, BAD))
    check_others_work(filled, {BAD}, key_of)
    repair()
    check_mended(filled, {BAD})


def test_missing_segment_is_found(filled: Bus, key_of: Callable[..., str]) -> None:
    """A journal that lacks an early segment is damaged; recovery does not start in the middle (docs/format.md)."""
    large = "x" * 200_000
    for _ in range(400):
        filled.send(large, partition_key=key_of(BAD))
        filled.receiver().complete_messages([message for message in filled.take() if str(message) == large])
        if len(journals(shard(filled.path, BAD))) > 1:
            break
    filled.stop("crash")
    segments = journals(shard(filled.path, BAD))
    assert len(segments) > 1
    moved = filled.path.parent / "moved"
    segments[0].rename(moved)
    check_others_work(filled, {BAD}, key_of)
    moved.rename(segments[0])
    check_mended(filled, {BAD})


def test_plain_queue_is_down_with_its_home_alone(bus: Bus) -> None:
    """A queue without partitioning is out of service only with its home partition (B-099)."""
    names = [f"plain-{number}" for number in range(12)]
    for name in names:
        bus.admin.create_queue(name)
        bus.send(f"body of {name}", queue_name=name)
    bus.close()
    repair = moved_away(bus.path)
    bus.open()
    down = []
    for name in names:
        try:
            bus.send("second", queue_name=name)
        except PartitionUnavailableError:
            down.append(name)
            assert bus.take(name) == []
        else:
            assert bodies(bus.take(name)) == [f"body of {name}", "second"]
    assert 0 < len(down) < len(names)
    bus.close()
    repair()
    bus.open()
    for name in down:
        assert bodies(bus.take(name)) == [f"body of {name}"]
