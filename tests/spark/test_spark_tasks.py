# SPDX-License-Identifier: Apache-2.0
"""Packing the broker's partitions into tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from oxbus.spark.source.tasks import PartitionSlice, pack


def share(partition: int, count: int, size: int) -> PartitionSlice:
    """Messages of one partition, with a gap in the middle of the numbers."""
    half = (count + 1) // 2
    first = partition << 48
    ranges = ((first + 1, first + half), (first + half + 11, first + 10 + count))
    return PartitionSlice(partition, tuple(it for it in ranges if it[0] <= it[1]), count * size)


def numbers(shares: tuple[PartitionSlice, ...]) -> list[int]:
    """All sequence numbers of a task."""
    return [number for it in shares for first, last in it.ranges for number in range(first, last + 1)]


@given(
    counts=st.lists(st.integers(0, 40), max_size=16),
    size=st.integers(1, 1000),
    task_bytes=st.integers(1, 20_000),
    tasks_min=st.integers(1, 20),
    extra=st.integers(0, 20),
)
def test_every_message_is_in_one_task(
    counts: list[int], size: int, task_bytes: int, tasks_min: int, extra: int
) -> None:
    """Every message is read exactly once, the number of tasks is within the limit, and no task is empty."""
    shares = [share(partition, count, size) for partition, count in enumerate(counts)]
    tasks = pack(shares, task_bytes=task_bytes, tasks_min=tasks_min, tasks_max=tasks_min + extra)
    found = [number for task in tasks for number in numbers(task)]
    assert sorted(found) == sorted(numbers(tuple(shares)))
    assert all(numbers(task) for task in tasks)
    assert len(tasks) <= tasks_min + extra
    assert len(tasks) >= min(tasks_min, sum(counts))
    again = pack(shares, task_bytes=task_bytes, tasks_min=tasks_min, tasks_max=tasks_min + extra)
    assert again == tasks


def test_small_partitions_share_a_task() -> None:
    """A task costs more than reading a few messages."""
    shares = [share(partition, 10, 100) for partition in range(16)]
    assert len(pack(shares, task_bytes=8 << 20, tasks_min=1, tasks_max=16)) == 1


def test_large_partitions_have_a_task_each() -> None:
    """The number of tasks follows the bytes, and none is much larger than another."""
    shares = [share(partition, 1000, 1024) for partition in range(16)]
    tasks = pack(shares, task_bytes=1 << 20, tasks_min=1, tasks_max=8)
    assert sorted(sum(it.bytes for it in task) for task in tasks) == [2 * 1000 * 1024] * 8


def test_partition_is_split_only_when_more_tasks_are_requested() -> None:
    """The order of a key holds only within a task."""
    one = [share(3, 1000, 1 << 20)]
    assert len(pack(one, task_bytes=1 << 20, tasks_min=1, tasks_max=16)) == 1
    assert len(pack(one, task_bytes=1 << 20, tasks_min=4, tasks_max=4)) == 4
