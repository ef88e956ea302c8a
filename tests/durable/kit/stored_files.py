# SPDX-License-Identifier: Apache-2.0
"""Inspect and damage the files of a namespace; the format is that of docs/format.md."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEADER_BYTES = 4096
FRAME_HEADER_BYTES = 32


def tree(path: Path) -> dict[str, str]:
    """Every file and directory below a path with a hash of its bytes; a file `owner` counts by name only."""
    if path.is_file():
        return {".": hashlib.sha256(path.read_bytes()).hexdigest()}
    return {
        str(below.relative_to(path)): hashlib.sha256(below.read_bytes()).hexdigest()
        if below.is_file() and below.name != "owner"
        else below.name
        for below in sorted(path.rglob("*"))
    }


def contents(shard: Path) -> dict[str, str]:
    """The files of a shard that hold messages, each with a hash of its bytes."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(shard.glob("*"))
        if path.suffix in {".journal", ".snapshot"}
    }


def shard(path: Path, partition_id: int) -> Path:
    """The directory of one shard."""
    return path / f"shard-{partition_id:02}"


def journals(directory: Path) -> list[Path]:
    """The journal segments of a shard in order."""
    return sorted(directory.glob("*.journal"))


def flip_bit(path: Path, position: int) -> None:
    """Change one bit of a file; a second call restores it."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def places_of(directory: Path, marker: bytes) -> list[tuple[Path, int]]:
    """The positions of some bytes in the files of a shard that hold messages; at least one."""
    places = []
    for path in sorted(directory.iterdir()):
        if path.suffix in {".journal", ".snapshot"}:
            position = path.read_bytes().find(marker)
            if position >= 0:
                places.append((path, position))
    assert places, f"{marker!r} is in no file of {directory}"
    return places


def frames(segment: Path) -> list[tuple[int, int]]:
    """Begin and end of each frame of a segment."""
    data = segment.read_bytes()
    found = []
    begin = HEADER_BYTES
    while begin + FRAME_HEADER_BYTES <= len(data):
        (payload_bytes,) = struct.unpack_from("<I", data, begin)
        if payload_bytes == 0:
            break
        found.append((begin, begin + FRAME_HEADER_BYTES + payload_bytes))
        begin = found[-1][1]
    return found
