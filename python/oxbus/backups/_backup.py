# SPDX-License-Identifier: Apache-2.0
"""Writing a backup."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus._oxbus import Namespace, _BackupLock
from oxbus.backups import _files
from oxbus.backups._sources import source_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from oxbus.backups._sources import FoundFile, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was written.

    Attributes:
        directory: Where it is.
        files: The number of its files.
        bytes: Their bytes.
        copied_bytes: Those of them that were copied: the previous backup did not have them, or the file system has no
            hard links.
    """

    directory: Path
    files: int
    bytes: int
    copied_bytes: int


def backup(
    source: Namespace | str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    keep: int | None = None,
    connection_verify: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Backup:
    """Write a backup: the files of a namespace as they are at one moment, with everything acknowledged before the call.

    Sends, receives and settlements go on meanwhile. Files that the newest backup in `target` has are not copied again.
    A backup that does not end leaves nothing that looks complete; the next one removes what it left.

    Args:
        source: An open namespace in a directory; a directory that no process has open; or the connection string of a
            server, whose key needs the right Manage.
        target: The directory of the backups, which is created if it is missing, for this user only. It must be outside
            the namespace.
        keep: How many of the newest backups to keep, this one included. None: all.
        connection_verify: A PEM file with the certificates to trust when connecting to a server. None: those of the
            system.
        progress: Called with the bytes copied and those to copy.

    Returns:
        The backup.

    Raises:
        PartitionUnavailableError: A partition is out of service, so its messages would be missing.
        NamespaceInUseError: Another process has the directory open, or writes a backup into `target`.
        OSError: A file cannot be read or written.
        ValueError: An argument is invalid, the source is not a namespace in a directory, or a directory in the target
            has the name of an unfinished backup and is none.

    Source: docs/guide/backup.md.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be at least 1, because it counts the new backup: keep={keep}")
    place = Path(target).resolve()
    found = source_of(source, connection_verify)
    if found.directory is not None and place.is_relative_to(found.directory):
        raise ValueError(f"the target is inside the namespace; name a directory outside it: `{place}`")
    _files.make_directory(place)
    lock = _BackupLock(place)
    try:
        return _write(found, place, keep, progress)
    finally:
        # The traceback of an error would keep the target locked.
        lock.close()


def _write(source: Source, place: Path, keep: int | None, progress: Callable[[int, int], object] | None) -> Backup:
    """Write a backup into a directory that is locked."""
    unfinished = place / _files.UNFINISHED
    writing = _Writing(unfinished, source.directory, next(reversed(_files.complete(place)), None), progress)
    began = datetime.now(UTC)
    try:
        source.send(writing.known, writing)
        written = writing.finish(source=source.name, created_at=began.isoformat(timespec="milliseconds"))
        directory = unfinished.rename(place / _new_name(place, began))
    except BaseException:
        writing.discard()
        raise
    (directory / _files.MARK).unlink()
    _files.sync_names(directory)
    _files.sync_names(place)
    if keep is not None:
        for old in _files.complete(place)[:-keep]:
            _files.mark(old)
            _files.remove_marked(old.rename(unfinished))
    return Backup(
        directory=directory, files=len(written), bytes=sum(file.bytes for file in written), copied_bytes=writing.copied
    )


def _new_name(place: Path, began: datetime) -> str:
    """Return the name of a backup: the time at which it began, or one after the newest if the clock was ahead."""
    newest = max((moment for path in _files.named(place) if (moment := _files.moment_of(path.name))), default=None)
    name = _files.name_of(began)
    if newest is None or name > _files.name_of(newest):
        return name
    return _files.name_of(newest + timedelta(milliseconds=1))


def _known_files(previous: Path | None) -> list[_files.SavedFile]:
    """Return the files that a new backup may share: those that the previous one lists and really has."""
    if previous is None:
        return []
    try:
        listed = _files.read_list(previous)
    except (OSError, ValueError):
        # All files are copied then.
        return []
    return [file for file in listed if _is_there(_files.place_of(previous, file.name), file.bytes)]


def _is_there(path: Path, size: int) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == size


class _Writing:
    """Writes the files of a source into a new directory.

    Args:
        directory: The directory.
        source: The directory of the namespace, if it is on this machine.
        previous: The newest complete backup, whose files are shared.
        progress: Called with the bytes copied and those to copy.
    """

    def __init__(
        self, directory: Path, source: Path | None, previous: Path | None, progress: Callable[[int, int], object] | None
    ) -> None:
        self._directory = directory
        self._source = source
        self._previous = previous
        self._progress = progress
        self._is_begun = False
        saved = _known_files(previous)
        # The catalog is small, and its first page does not tell all of its versions apart.
        self._shared = {(file.name, file.fingerprint): file for file in saved if file.name != _files.CATALOG}
        self.known = frozenset(self._shared)
        self.copied = 0
        self._to_copy = 0
        self._saved: list[_files.SavedFile] = []
        self._left: deque[FoundFile] = deque()
        self._open: BinaryIO | None = None
        self._sum = hashlib.sha256()

    def begin(self, files: Sequence[FoundFile]) -> None:
        """Take the list of the files, and share those that the previous backup has."""
        for file in files:
            _files.check_name(file.name)
        self._remove_leftovers()
        _files.make_directory(self._directory)
        self._is_begun = True
        _files.mark(self._directory)
        for file in files:
            _files.make_directory(_files.place_of(self._directory, file.name).parent)
        self._left.extend(file for file in files if file.is_sent)
        self._to_copy = sum(file.bytes for file in self._left)
        self._saved.extend(self._share(file) for file in files if not file.is_sent)
        self._next_file()

    def _remove_leftovers(self) -> None:
        """Remove a backup that did not end."""
        if not self._directory.exists() and not self._directory.is_symlink():
            return
        is_source = self._source is not None and self._source.is_relative_to(self._directory)
        is_marked = not self._directory.is_symlink() and (self._directory / _files.MARK).is_file()
        if is_source or not (is_marked or _is_empty(self._directory)):
            raise ValueError(
                f"the directory has the name of an unfinished backup and is none; move it away: `{self._directory}`"
            )
        _files.remove_marked(self._directory)

    def _share(self, file: FoundFile) -> _files.SavedFile:
        """Let this backup and the previous one share a file; copy it where the file system has no hard links."""
        saved = self._shared.get((file.name, file.fingerprint))
        if saved is None or self._previous is None:
            raise OSError(f"the source left out a file that the previous backup does not have: `{file.name}`")
        path = _files.place_of(self._directory, file.name)
        old = _files.place_of(self._previous, file.name)
        try:
            path.hardlink_to(old)
        except FileNotFoundError:
            raise
        except OSError:
            self._copy(old, path, saved.bytes)
        if path.stat().st_size != saved.bytes:
            raise OSError(f"a file of the previous backup was changed meanwhile; back up again: `{old}`")
        return saved

    def _copy(self, old: Path, path: Path, size: int) -> None:
        """Copy a file of the previous backup."""
        self._to_copy += size
        with old.open("rb") as reading, path.open("xb") as writing:
            shutil.copyfileobj(reading, writing)
            writing.flush()
            _files.sync(writing.fileno())
        self.copied += size
        if self._progress is not None:
            self._progress(self.copied, self._to_copy)

    def write(self, content: bytes) -> None:
        """Take the next bytes."""
        rest = memoryview(content)
        while rest:
            if self._open is None:
                raise OSError("the source sent more than it announced; is a proxy in between?")
            piece = rest[: self._left[0].bytes - self._open.tell()]
            self._open.write(piece)
            self._sum.update(piece)
            self.copied += len(piece)
            rest = rest[len(piece) :]
            self._next_file()
        if self._progress is not None:
            self._progress(self.copied, self._to_copy)

    def _next_file(self) -> None:
        """End the open file if it is complete, and open the next one that has bytes."""
        while self._left:
            file = self._left[0]
            if self._open is None:
                # Unbuffered: `tell` is then the length, and the pieces are large.
                self._open = _files.place_of(self._directory, file.name).open("wb", buffering=0)
                self._sum = hashlib.sha256()
            if self._open.tell() < file.bytes:
                return
            _files.sync(self._open.fileno())
            self._open.close()
            self._open = None
            self._saved.append(
                _files.SavedFile(
                    name=file.name, bytes=file.bytes, fingerprint=file.fingerprint, sha256=self._sum.hexdigest()
                )
            )
            self._left.popleft()

    def finish(self, **facts: str) -> list[_files.SavedFile]:
        """Write the list of the files, and make everything durable."""
        if self._left or not self._saved:
            raise OSError("the source ended before the last file; back up again")
        _files.write_list(self._directory, self._saved, **facts)
        _files.sync_all_names(self._directory)
        return self._saved

    def discard(self) -> None:
        """Remove what was written. What cannot be removed stays for the next backup."""
        if self._open is not None:
            self._open.close()
        if self._is_begun:
            with contextlib.suppress(OSError):
                _files.remove_marked(self._directory)


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir())
