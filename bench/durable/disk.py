# SPDX-License-Identifier: Apache-2.0
"""Speed of the disk itself in a directory: the reference for everything that survives power loss.

A rate is of loops of one write and one `fdatasync`; each loop waits for the disk once.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import FileIO

    from plan import Plan

BLOCK = os.urandom(4096)
CHUNK_BYTES = 1 << 20
PREALLOCATED_BYTES = 16 << 20


def figures(directory: Path, plan: Plan) -> dict[str, float | str]:
    """Return everything that describes a disk in a result."""
    second = plan.scale
    kind = file_system(directory)
    if kind in {"tmpfs", "ramfs"}:
        print(f"{directory} is {kind}: nothing survives power loss there, so no figure means anything", flush=True)
    return {
        "file_system": kind,
        "append_fdatasync_per_s": appends_per_s(directory, second),
        "append_fdatasync_16_files_per_s": appends_per_s(directory, second, files=16),
        "overwrite_fdatasync_per_s": overwrites_per_s(directory, second),
        "sixteen_files_per_s": sixteen_files_per_s(directory, second),
        "sequential_bytes_per_s": sequential_bytes_per_s(directory, plan.of(256 << 20, CHUNK_BYTES)),
    }


def appends_per_s(directory: Path, seconds: float, files: int = 1) -> float:
    """Return how often per second 4 KiB can be appended and synced, to `files` files in turn."""
    with ExitStack() as stack:
        open_files = [stack.enter_context(TemporaryFile(dir=directory, buffering=0)) for _ in range(files)]
        return _loops_per_s(open_files, BLOCK, seconds)


def overwrites_per_s(directory: Path, seconds: float) -> float:
    """Return how often per second 4 KiB of a file that has its blocks can be overwritten and synced."""
    with _preallocated(directory, PREALLOCATED_BYTES) as file:
        return _loops_per_s([file], BLOCK, seconds, PREALLOCATED_BYTES)


def sixteen_files_per_s(directory: Path, seconds: float) -> float:
    """Return how often per second 512 bytes can be written and synced, to sixteen preallocated files in turn.

    One sender does that to a queue of sixteen partitions.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(_preallocated(directory, CHUNK_BYTES)) for _ in range(16)]
        return _loops_per_s(files, BLOCK[:512], seconds, CHUNK_BYTES)


def side_by_side_per_s(directory: Path, seconds: float, threads: int = 4, write_bytes: int = 36 << 10) -> float:
    """Return how often per second `threads` threads together write and sync, each to a preallocated file.

    36 KiB are what a list of a hundred messages of 300 bytes takes in a journal.
    """
    block = os.urandom(write_bytes)
    with ExitStack() as stack, ThreadPoolExecutor(threads) as pool:
        files = [stack.enter_context(_preallocated(directory, PREALLOCATED_BYTES)) for _ in range(threads)]
        return sum(pool.map(lambda file: _loops_per_s([file], block, seconds, PREALLOCATED_BYTES), files))


def _preallocated(directory: Path, size: int) -> FileIO:
    file = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 -- the caller closes it
    for _ in range(size // CHUNK_BYTES):
        file.write(bytes(CHUNK_BYTES))
    os.fsync(file.fileno())
    return file


def sequential_bytes_per_s(directory: Path, total_bytes: int) -> float:
    """Return the bandwidth of one long write, its sync included."""
    chunk = os.urandom(CHUNK_BYTES)
    with TemporaryFile(dir=directory, buffering=0) as file:
        started = time.perf_counter()
        for _ in range(total_bytes // CHUNK_BYTES):
            file.write(chunk)
        os.fdatasync(file.fileno())
        return total_bytes / (time.perf_counter() - started)


def _loops_per_s(files: Sequence[FileIO], block: bytes, seconds: float, wrap_bytes: int | None = None) -> float:
    """Write and sync to each file in turn, from its beginning on, and again from there after `wrap_bytes`."""
    numbers = [file.fileno() for file in files]
    count = 0
    started = now = time.perf_counter()
    while now - started < seconds:
        turn, index = divmod(count, len(numbers))
        position = turn * len(block)
        if wrap_bytes is not None:
            position %= wrap_bytes // len(block) * len(block)
        os.pwrite(numbers[index], block, position)
        os.fdatasync(numbers[index])
        count += 1
        now = time.perf_counter()
    return count / (now - started)


def flushes(directory: Path) -> int | None:
    """Return how often the whole device below the directory was flushed since the system started; None if unknown."""
    device = directory.stat().st_dev
    wanted = [str(os.major(device)), str(os.minor(device))]
    try:
        for line in Path("/proc/diskstats").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[:2] == wanted and len(fields) > 18:
                return int(fields[18])
    except OSError:
        pass
    return None


def file_system(directory: Path) -> str:
    """Return the type of the file system, for example ``ext4``."""
    device = directory.stat().st_dev
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[2] == f"{os.major(device)}:{os.minor(device)}":
            return fields[fields.index("-") + 1]
    return "unknown"
