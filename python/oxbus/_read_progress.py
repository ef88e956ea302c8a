# SPDX-License-Identifier: Apache-2.0
"""Progress of a call that reads a directory, measured by the bytes that this process has read."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN_AFTER_SECONDS = 1.0
"""A quicker call shows nothing."""
SHOWN_EVERY_SECONDS = 0.2
_COUNTERS = Path("/proc/self/io")
_BAR = 40
"""Characters of the bar."""


class ReadProgress:
    """Shows, from a thread, how much of a directory has been read while the block runs.

    Files are preallocated, so a call may end before all of their bytes were read.

    Args:
        directory: The directory that the block reads; without files nothing is shown.
        show: Called with bytes read and total bytes, first after `SHOWN_AFTER_SECONDS` and once more at the end.
    """

    def __init__(self, directory: Path, show: Callable[[int, int], object]) -> None:
        self._directory = directory
        self._show = show
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oxbus-read-progress", daemon=True)

    def __enter__(self) -> None:
        self._total = sum(map(_size, self._directory.rglob("*")))
        self._before = _bytes_read()
        if self._total:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._total:
            self._thread.join()

    def _run(self) -> None:
        if self._over.wait(SHOWN_AFTER_SECONDS):
            return
        while True:
            # 100 % is shown only when the block ends.
            self._show(min(_bytes_read() - self._before, self._total - 1), self._total)
            if self._over.wait(SHOWN_EVERY_SECONDS):
                break
        self._show(self._total, self._total)


def show_reading(read: int, total: int) -> None:
    """Draw a progress bar on standard error, if that is a terminal."""
    if sys.stderr.isatty():
        done = _BAR * read // total
        end = "\n" if read == total else ""
        sys.stderr.write(f"\rreading [{'#' * done:<{_BAR}}] {100 * read // total:>3} %{end}")
        sys.stderr.flush()


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is not a file or was removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _bytes_read() -> int:
    """Return the bytes that this process has read since it started; 0 where the system does not count them."""
    try:
        counters = _COUNTERS.read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters.splitlines() if line.startswith("rchar:")), 0)
