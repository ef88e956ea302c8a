# SPDX-License-Identifier: Apache-2.0
"""Packing of partition slices into tasks of about the same number of bytes.

A Python task costs Spark about 50 ms, so small partitions share a task. One task reads a whole partition in order,
unless the query requests more tasks than there are partitions with messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

_SPLIT_MIN = 2


@dataclass(frozen=True)
class PartitionSlice:
    """Messages of one partition of the broker."""

    partition: int
    ranges: tuple[tuple[int, int], ...]
    """First and last sequence numbers, inclusive, ascending."""
    bytes: int

    @property
    def span(self) -> int:
        """The number of sequence numbers in the ranges."""
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, repr=False)
class Task(InputPartition):
    """The messages that one Spark task reads."""

    shares: tuple[PartitionSlice, ...]
    reservation_id: str | None = None
    epoch: int = 0
    has_sessions: bool = False
    """Whether the reservation holds sessions; then a task has whole partitions, so that sessions stay in order."""


def pack(
    shares: list[PartitionSlice], *, task_bytes: int, tasks_min: int, tasks_max: int
) -> list[tuple[PartitionSlice, ...]]:
    """Pack slices into tasks; the same slices give the same tasks.

    Args:
        shares: At most one slice of each partition.
        task_bytes: Target size of a task, in bytes.
        tasks_min: Split partitions until there are this many tasks, if there are enough messages.
        tasks_max: Upper bound for the number of tasks.
    """
    shares = [share for share in shares if share.ranges]
    wanted = math.ceil(sum(share.bytes for share in shares) / task_bytes)
    tasks = min(max(wanted, tasks_min, 1), tasks_max)
    if tasks_min > len(shares):
        shares = _split(shares, tasks)
    loads: list[list[PartitionSlice]] = [[] for _ in range(min(tasks, len(shares)))]
    for share in sorted(shares, key=lambda share: (-share.bytes, share.partition, share.ranges)):
        min(loads, key=lambda load: (sum(piece.bytes for piece in load), len(load))).append(share)
    return [tuple(sorted(load, key=lambda share: (share.partition, share.ranges))) for load in loads]


def _split(shares: list[PartitionSlice], pieces: int) -> list[PartitionSlice]:
    shares = list(shares)
    while len(shares) < pieces:
        heaviest = max(shares, key=lambda share: (share.span > 1, share.bytes, share.span), default=None)
        if heaviest is None or heaviest.span < _SPLIT_MIN:
            break
        shares.remove(heaviest)
        shares += _halves(heaviest)
    return shares


def _halves(share: PartitionSlice) -> tuple[PartitionSlice, PartitionSlice]:
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    missing = share.span // 2
    for first, last in share.ranges:
        taken = min(missing, last - first + 1)
        missing -= taken
        if taken:
            left.append((first, first + taken - 1))
        if first + taken <= last:
            right.append((first + taken, last))
    half = share.bytes // 2
    return replace(share, ranges=tuple(left), bytes=half), replace(share, ranges=tuple(right), bytes=share.bytes - half)
