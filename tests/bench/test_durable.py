# SPDX-License-Identifier: Apache-2.0
"""Queues on disk: the number of messages for each contender, and the writes to the disk."""

from __future__ import annotations

import os
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from durable import disk
from durable.sizes import STEP, fitting, long_enough, sizes_for
from peers.contract import Level
from peers.in_process import SimpleQueue
from peers.line_up import Contender

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 200_000


@pytest.mark.parametrize(
    ("per_s", "wanted"), [(100, STEP), (2_000, 1_000), (10_000, 5_000), (300_000, 150_000), (10_000_000, MOST)]
)
def test_fast_contender_gets_more_messages(per_s: float, wanted: int) -> None:
    """With one count for all, fast contenders were measured for 15 ms, mostly one delay of the disk."""
    tried: list[int] = []

    def took(messages: int) -> float:
        tried.append(messages)
        return messages / per_s

    assert fitting(took, 0.5, MOST) == wanted
    assert took(tried[-1]) >= 0.05 or tried[-1] == MOST, "a trial that is too short means little"


@pytest.mark.parametrize(("seconds", "times"), [(0.01, 20), (0.15, 2), (0.2, 1), (3.0, 1)])
def test_work_is_repeated_until_it_took_long_enough(seconds: float, times: int) -> None:
    """The disk was ten times slower when the messages were counted than when they were measured."""
    assert long_enough(lambda: seconds, lambda found: found + 1e-9) == [seconds] * times


def test_sizes_are_multiples_of_a_hundred_for_two_threads(tmp_path: Path) -> None:
    """Two threads share lists of a hundred, however fast a contender is."""
    sizes = sizes_for(Contender(SimpleQueue, Level.MEMORY), tmp_path, 0.01, 10 * STEP)
    for size in (1, 100):
        assert STEP <= sizes.of(size) <= 10 * STEP
        assert sizes.of(size) % STEP == 0


@pytest.mark.parametrize(
    ("loop", "files", "write_bytes"),
    [(disk.sixteen_files_per_s, 16, 512), (disk.side_by_side_per_s, 4, 36 << 10), (disk.overwrites_per_s, 1, 4096)],
)
def test_preallocated_files_never_grow(
    loop: Callable[[Path, float], float], files: int, write_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes go to allocated blocks, and continue at the beginning after the end."""
    written: list[tuple[int, int, bool]] = []
    ticks = count()
    pwrite = os.pwrite

    def noted(number: int, block: bytes, position: int) -> int:
        inside = position + len(block) <= os.fstat(number).st_size
        written.append((number, len(block), inside))
        return pwrite(number, block, position)

    monkeypatch.setattr(disk, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 1000))
    monkeypatch.setattr(disk, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(disk, "PREALLOCATED_BYTES", 1 << 17)
    monkeypatch.setattr("os.pwrite", noted)
    monkeypatch.setattr("os.fdatasync", lambda _number: None)
    assert loop(tmp_path, 0.5) > 0
    numbers, sizes, inside = (set(one) for one in zip(*written, strict=True))
    assert (len(numbers), sizes, inside) == (files, {write_bytes}, {True})
    assert len(written) * write_bytes > (1 << 17), "it reached the end"
