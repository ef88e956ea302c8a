# SPDX-License-Identifier: Apache-2.0
"""How far a call is that reads a directory: told by what this process has read meanwhile."""

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
    """Shows, in a thread, how much of a directory was read while the block runs.

    Files have room for more than was written to them, so a call may be over before all of it was read.

    Args:
        directory: What the block reads; nothing is shown when it has no files.
        show: Called with bytes read and bytes to read, first after `SHOWN_AFTER_SECONDS`, and when the block is over.
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
            # The last byte is shown when the block is over.
            self._show(min(_bytes_read() - self._before, self._total - 1), self._total)
            if self._over.wait(SHOWN_EVERY_SECONDS):
                break
        self._show(self._total, self._total)


def show_reading(read: int, total: int) -> None:
    """Draw a bar over the last one, where somebody looks at it: on a terminal."""
    if sys.stderr.isatty():
        done = _BAR * read // total
        end = "\n" if read == total else ""
        sys.stderr.write(f"\rreading [{'#' * done:<{_BAR}}] {100 * read // total:>3} %{end}")
        sys.stderr.flush()


def _size(path: Path) -> int:
    """Bytes of a file; 0 for what is none, or is gone."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _bytes_read() -> int:
    """Bytes that this process has read since it began; 0 where the system does not count them."""
    try:
        counters = _COUNTERS.read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters.splitlines() if line.startswith("rchar:")), 0)
