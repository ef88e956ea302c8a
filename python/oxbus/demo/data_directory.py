# SPDX-License-Identifier: Apache-2.0
"""The directory of a demo's namespace and progress log, from which a killed demo continues.

Files are written atomically: under another name, synced, then renamed.
`progress.json` is the first file to be created and the last one to be removed. A non-empty directory without it is
foreign, and nothing in it is changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FORMAT = 1
_UNFINISHED = ".part"


class DataDirectoryError(RuntimeError):
    """The directory cannot be used; the text names it and the reason."""


@dataclass(frozen=True)
class Progress:
    """The progress of a demo, apart from its other files."""

    format: int = _FORMAT
    runs: int = 0
    """Number of runs so far."""
    acknowledged_batches: int = 0
    """Batches whose sending was acknowledged; the state of the next one is unknown."""
    finished: bool = False
    """Whether the report was printed; the remaining files may be removed."""


class DataDirectory:
    """The directory of one demo, owned by this process until it is closed or the process ends.

    Raises:
        DataDirectoryError: Another demo is running in it, or it contains files that are not a demo's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.namespace = self.path / "namespace"
        self.encoded = self.path / "encoded.arrow"
        self.received = self.path / "received"
        self._progress_file = self.path / "progress.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise DataDirectoryError(f"{self.path} cannot be used: {error}") from error
        try:
            self._own()
            self.progress = self._read_progress()
            if self.progress.finished:
                self._clear()
                self._write_progress(Progress())
            self.received.mkdir(exist_ok=True)
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the directory; remove it if there is nothing to continue."""
        if not self.progress.finished and not self.encoded.exists():
            self._remove()
        os.close(self._lock)

    def count_run(self) -> int:
        """Record a new run; return its number, counted from 1."""
        self._write_progress(replace(self.progress, runs=self.progress.runs + 1))
        return self.progress.runs

    def acknowledge(self, batches: int) -> None:
        """Record that this many batches are in the queue."""
        self._write_progress(replace(self.progress, acknowledged_batches=batches))

    def finish(self, *, keep: bool) -> None:
        """Let the next demo start from the beginning.

        Args:
            keep: Keep the files for inspection until that demo starts.
        """
        self._write_progress(replace(self.progress, finished=True))
        if not keep:
            self._remove()

    def write(self, path: Path, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file of the directory durably: it survives a power failure once this returns."""
        unfinished = path.with_name(path.name + _UNFINISHED)
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def _own(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataDirectoryError(f"another demo is running in {self.path}") from error

    def _read_progress(self) -> Progress:
        if not self._progress_file.exists():
            if any(entry.suffix != _UNFINISHED for entry in self.path.iterdir()):
                msg = f"{self.path} holds files that are not the demo's; name another directory with --data"
                raise DataDirectoryError(msg)
            self._write_progress(Progress())
        try:
            progress = Progress(**json.loads(self._progress_file.read_bytes()))
        except (ValueError, TypeError) as error:
            raise DataDirectoryError(f"{self._progress_file} is damaged; remove {self.path}: {error}") from error
        if progress.format != _FORMAT:
            msg = f"{self.path} was left by another version of the demo; remove it, or name another with --data"
            raise DataDirectoryError(msg)
        if progress.runs and not progress.finished and not self.encoded.exists():
            raise DataDirectoryError(f"{self.encoded} is missing; remove {self.path} to start again")
        return progress

    def _write_progress(self, progress: Progress) -> None:
        self.progress = progress
        self.write(self._progress_file, lambda file: file.write(json.dumps(asdict(progress)).encode()))

    def _clear(self) -> None:
        for directory in (self.namespace, self.received):
            if directory.exists():
                shutil.rmtree(directory)
        self.encoded.unlink(missing_ok=True)
        for unfinished in self.path.glob(f"*{_UNFINISHED}"):
            unfinished.unlink()

    def _remove(self) -> None:
        self._clear()
        self._progress_file.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()
