# SPDX-License-Identifier: Apache-2.0
"""Restoring a backup."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbus._oxbus import _BackupLock
from oxbus.backups import _files

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_MARK: Final = "restore.unfinished"
"""Exists while a restore runs; a directory with it is not a namespace."""
_OWNER: Final = "owner"
_PIECE: Final = 1 << 20


def restore(
    source: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write the namespace of a backup into a directory. Every file is checked against its checksum.

    The restored namespace is what the next open would have found if its process had ended at the moment of the backup:
    locks end, and deliveries count. It takes the place of the old namespace: do not use both.
    A restore that does not end leaves a directory that does not open; call this again.

    Args:
        source: A backup, or the directory of several, of which the newest is taken.
        directory: Where to: a directory that is empty or missing; a missing one is created for this user only.
        progress: Called with the bytes written and all bytes.

    Returns:
        The backup that was restored.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: There is no backup, a file of it is damaged, or the directory is not empty.

    Source: docs/guide/backup.md.
    """
    given, place = Path(source).resolve(), Path(directory).resolve()
    found = given if (given / _files.LIST).exists() else next(reversed(_files.complete(given)), given)
    files = _files.read_list(found)
    if place.is_dir():
        _check_empty(place)
    _files.make_directory(place)
    lock = _BackupLock(place)
    try:
        _write(found, files, place, progress)
    finally:
        # The traceback of an error would keep the directory locked.
        lock.close()
    return found


def _check_empty(place: Path) -> set[str]:
    """Return what a restore that did not end left in a directory; fail if there is something else."""
    names = {path.name for path in place.iterdir()} - {_OWNER}
    if names and _MARK not in names:
        raise ValueError(f"the directory is not empty; name one that is empty or missing: `{place}`")
    return names - {_MARK}


def _write(
    backup: Path, files: list[_files.SavedFile], place: Path, progress: Callable[[int, int], object] | None
) -> None:
    """Write a backup into a directory that is locked."""
    left = _check_empty(place)
    (place / _MARK).touch()
    _files.sync_names(place)
    for name in left:
        _files.remove(place / name)
    total, written = sum(file.bytes for file in files), 0
    # The catalog comes last, because it makes the directory a namespace.
    for file in sorted(files, key=lambda file: file.name == _files.CATALOG):
        if file.name == _files.CATALOG:
            _files.sync_all_names(place)
        _copy(file, backup, place / file.name)
        written += file.bytes
        if progress is not None:
            progress(written, total)
    _files.sync_names(place)
    (place / _MARK).unlink()
    _files.sync_names(place)


def _copy(file: _files.SavedFile, backup: Path, to: Path) -> None:
    """Copy one file, and check it."""
    source = _files.place_of(backup, file.name)
    _files.make_directory(to.parent)
    found, size = hashlib.sha256(), 0
    try:
        with source.open("rb") as reading, to.open("xb") as writing:
            while piece := reading.read(_PIECE):
                writing.write(piece)
                found.update(piece)
                size += len(piece)
            writing.flush()
            _files.sync(writing.fileno())
    except FileNotFoundError:
        raise ValueError(f"a file of the backup is missing; restore another backup: `{source}`") from None
    if size != file.bytes or found.hexdigest() != file.sha256:
        raise ValueError(f"a file of the backup is damaged; restore another backup: `{source}`")
