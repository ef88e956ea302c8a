# SPDX-License-Identifier: Apache-2.0
"""Signals that a command waits for."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import FrameType


class Signals:
    """Waits for signals, one at a time, during the with-block; for the main thread only.

    A Python handler runs between two instructions of the main thread. A signal that arrives just before a wait would
    not end the wait, and a handler that sets an event may deadlock on a lock that its own thread holds. Therefore the
    interpreter's C handler writes each signal number into a socket at once, and `wait` reads them there.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers: Final = frozenset(numbers)

    def __enter__(self) -> Self:
        self._read_end, self._write_end = socket.socketpair()
        self._write_end.setblocking(False)
        self._before_fd = signal.set_wakeup_fd(self._write_end.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _ignore) for number in self._numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        self._read_end.close()
        self._write_end.close()

    def wait(self, seconds: float | None = None) -> signal.Signals | None:
        """Return the next signal, or None if none arrives for so long; without `seconds`, wait until one arrives."""
        self._read_end.settimeout(seconds)
        while True:
            try:
                number = self._read_end.recv(1)[0]
            except TimeoutError:
                return None
            # Signals with handlers of other code arrive here, too.
            if number in self._numbers:
                return signal.Signals(number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Replace the default action of the signal."""
