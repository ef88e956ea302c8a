# SPDX-License-Identifier: Apache-2.0
"""Writing a backup."""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbus._oxbus import Namespace, _BackupLock
from oxbus.backups import _files
from oxbus.backups._sources import source_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from oxbus.backups._sources import FoundFile

_LOCK: Final = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was written.

    Attributes:
        directory: Where it is.
        files: The number of its files.
        bytes: Their bytes.
        copied_bytes: Those of them that the previous backup did not have.
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
        target: The directory of the backups, which is created if it is missing. It must be outside the namespace.
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
        ValueError: An argument is invalid, or the source is not a namespace in a directory.

    Source: docs/guide/backup.md.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be at least 1, because it counts the new backup: keep={keep}")
    place = Path(target).resolve()
    name, send = source_of(source, connection_verify)
    if not isinstance(source, Namespace) and place.is_relative_to(name):
        raise ValueError(f"the target is inside the namespace; name a directory outside it: `{place}`")
    place.mkdir(parents=True, exist_ok=True)
    lock = _BackupLock(place)
    unfinished = place / _files.UNFINISHED
    if unfinished.exists():
        shutil.rmtree(unfinished)
    writing = _Writing(unfinished, _newest(place), progress)
    began = datetime.now(UTC)
    try:
        send(writing.known, writing)
        written = writing.finish(source=name, created_at=began.isoformat(timespec="milliseconds"))
    except BaseException:
        writing.discard()
        raise
    directory = unfinished.rename(_new_name(place, began))
    _files.sync_names(place)
    if keep is not None:
        for old in _files.complete(place)[:-keep]:
            shutil.rmtree(old.rename(unfinished))
    del lock
    return Backup(
        directory=directory, files=len(written), bytes=sum(file.bytes for file in written), copied_bytes=writing.copied
    )


def _newest(place: Path) -> Path | None:
    return next(reversed(_files.complete(place)), None)


def _new_name(place: Path, began: datetime) -> Path:
    """Return the name of a backup: the time at which it began, after those of the others."""
    newest = _newest(place)
    while True:
        path = place / f"{began:%Y%m%dT%H%M%S}.{began.microsecond // 1000:03}Z"
        if newest is None or path.name > newest.name:
            return path
        began += timedelta(milliseconds=1)


class _Writing:
    """Writes the files of a source into a new directory.

    Args:
        directory: The directory.
        previous: The newest complete backup, whose files are shared.
        progress: Called with the bytes copied and those to copy.
    """

    def __init__(self, directory: Path, previous: Path | None, progress: Callable[[int, int], object] | None) -> None:
        self._directory = directory
        self._previous = previous
        self._progress = progress
        # The catalog is small, and its first page does not tell all of its versions apart.
        saved = [] if previous is None else _files.read_list(previous)
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
        self._directory.mkdir()
        for file in files:
            _files.check_name(file.name)
            path = _files.place_of(self._directory, file.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.is_sent:
                self._left.append(file)
                self._to_copy += file.bytes
            else:
                self._saved.append(self._share(file, path))
        self._next_file()

    def _share(self, file: FoundFile, path: Path) -> _files.SavedFile:
        """Let this backup and the previous one share a file; copy it where the file system has no hard links."""
        saved = self._shared.get((file.name, file.fingerprint))
        if saved is None or self._previous is None:
            raise OSError(f"the source left out a file that the previous backup does not have: `{file.name}`")
        old = _files.place_of(self._previous, file.name)
        try:
            path.hardlink_to(old)
        except OSError:
            shutil.copyfile(old, path)
        return saved

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
        """Remove what was written."""
        if self._open is not None:
            self._open.close()
        shutil.rmtree(self._directory, ignore_errors=True)
