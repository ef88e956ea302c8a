# SPDX-License-Identifier: Apache-2.0
"""Signals that a command waits for."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import FrameType


class Signals:
    """Some signals, waited for one after the other while the with-block lasts; the main thread's.

    A handler in Python runs between two instructions of the main thread: a signal that comes after the last one before
    a wait would not end the wait, and a handler that sets an event may stop inside it, at a lock which its own thread
    holds. So the handler of the interpreter writes each number into a socket, at once, and the wait reads them there.
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

    def wait(self) -> signal.Signals:
        """Return the next of them, and wait until it comes."""
        while True:
            number = self._read_end.recv(1)[0]
            # Numbers of handlers that others have set come the same way.
            if number in self._numbers:
                return signal.Signals(number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Keep the signal from doing what it does without a handler."""
