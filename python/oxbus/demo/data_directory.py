# SPDX-License-Identifier: Apache-2.0
"""The directory in which a demo keeps its namespace and its notes, so that it can go on after a kill.

A file is there whole or not at all: it is written under another name, synced, and renamed.
`progress.json` is the first file to come and the last one to go. A directory that holds anything but has none is
somebody else's, and nothing in it is touched.
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
    """The directory cannot be used; the text names it and says why."""


@dataclass(frozen=True)
class Progress:
    """How far a demo is, apart from what its other files say."""

    format: int = _FORMAT
    runs: int = 0
    """Processes that worked with the messages so far."""
    acknowledged_batches: int = 0
    """Batches whose sending was acknowledged; the one after them is in doubt."""
    finished: bool = False
    """Whether the counts were told; all that is left may be removed."""


class DataDirectory:
    """The directory of one demo, owned by this process until it is closed or the process ends.

    Raises:
        DataDirectoryError: Another demo is at work in it, or it holds files that are not a demo's.
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
        """Let others use the directory; one without anything to go on with is removed."""
        if not self.progress.finished and not self.encoded.exists():
            self._remove()
        os.close(self._lock)

    def count_run(self) -> int:
        """Note that one more process works with the messages: its number, counted from 1."""
        self._write_progress(replace(self.progress, runs=self.progress.runs + 1))
        return self.progress.runs

    def acknowledge(self, batches: int) -> None:
        """Note that so many batches are in the queue."""
        self._write_progress(replace(self.progress, acknowledged_batches=batches))

    def finish(self, *, keep: bool) -> None:
        """Let the next demo start anew.

        Args:
            keep: Leave the files for somebody to look at, until that demo starts.
        """
        self._write_progress(replace(self.progress, finished=True))
        if not keep:
            self._remove()

    def write(self, path: Path, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file of the directory; it is safe from a loss of power when this returns."""
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
            raise DataDirectoryError(f"another demo is at work in {self.path}") from error

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
            raise DataDirectoryError(f"{self.encoded} is missing; remove {self.path} to start anew")
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
