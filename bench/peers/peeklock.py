# SPDX-License-Identifier: Apache-2.0
"""A PeekLock queue written by hand in Python.

A typical program that needs "take, then acknowledge" and no broker: a deque of ready messages, a table of
locks, a condition to wait on, one lock duration for the whole queue so that locks expire in the order they were made.
It keeps references to the bodies, so it never copies one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Message:
    """A message."""

    __slots__ = ("body", "delivery_count", "sequence_number")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.sequence_number = 0
        self.delivery_count = 0


class LockLostError(Exception):
    """No message is locked by this token any more."""


class PeekLockQueue:
    """Send, receive under a lock, then complete or abandon; expired locks give the message back."""

    def __init__(self, lock_seconds: float = 60.0, max_delivery_count: int = 10) -> None:
        self._lock_seconds = lock_seconds
        self._max_delivery_count = max_delivery_count
        self._mutex = threading.Lock()
        self._filled = threading.Condition(self._mutex)
        self._waiting = 0
        self._ready: deque[Message] = deque()
        self._locked: dict[int, Message] = {}
        self._deadlines: deque[tuple[float, int]] = deque()
        self._dead: deque[Message] = deque()
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)

    def __len__(self) -> int:
        """Messages ready or locked."""
        return len(self._ready) + len(self._locked)

    def send(self, message: Message) -> None:
        """Append one message."""
        with self._mutex:
            message.sequence_number = next(self._numbers)
            self._ready.append(message)
            if self._waiting:
                self._filled.notify()

    def send_many(self, messages: Iterable[Message]) -> None:
        """Append messages under one hold of the mutex."""
        with self._mutex:
            numbers = self._numbers
            for message in messages:
                message.sequence_number = next(numbers)
                self._ready.append(message)
            if self._waiting:
                self._filled.notify_all()

    def receive(self, max_count: int = 1, timeout: float | None = None) -> list[tuple[int, Message]]:
        """Lock up to `max_count` messages and return their tokens; wait for the first at most `timeout` seconds."""
        with self._mutex:
            now = time.monotonic()
            if self._deadlines and self._deadlines[0][0] <= now:
                self._expire(now)
            if not self._ready and not self._wait_for_message(now, timeout):
                return []
            deadline = time.monotonic() + self._lock_seconds
            ready, locked, deadlines, tokens = self._ready, self._locked, self._deadlines, self._tokens
            taken = []
            for _ in range(min(max_count, len(ready))):
                message = ready.popleft()
                token = next(tokens)
                locked[token] = message
                deadlines.append((deadline, token))
                taken.append((token, message))
            return taken

    def complete(self, token: int) -> None:
        """Remove a locked message for good."""
        with self._mutex:
            self._release(token)

    def complete_many(self, tokens: Iterable[int]) -> None:
        """Remove locked messages under one hold of the mutex."""
        with self._mutex:
            for token in tokens:
                self._release(token)

    def abandon(self, token: int) -> None:
        """Give a locked message back; it counts as delivered."""
        with self._mutex:
            self._return(self._release(token))
            if self._waiting:
                self._filled.notify()

    def _wait_for_message(self, now: float, timeout: float | None) -> bool:
        until = None if timeout is None else now + timeout
        while not self._ready:
            pauses = [] if until is None else [until - now]
            if self._deadlines:
                pauses.append(self._deadlines[0][0] - now)
            if until is not None and until <= now:
                return False
            self._waiting += 1
            try:
                self._filled.wait(min(pauses) if pauses else None)
            finally:
                self._waiting -= 1
            now = time.monotonic()
            self._expire(now)
        return True

    def _expire(self, now: float) -> None:
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            message = self._locked.pop(self._deadlines.popleft()[1], None)
            if message is not None:  # None: it was settled in time
                expired.append(message)
        for message in reversed(expired):  # the oldest goes to the front
            self._return(message)

    def _return(self, message: Message) -> None:
        message.delivery_count += 1
        if message.delivery_count >= self._max_delivery_count:
            self._dead.append(message)
        else:
            self._ready.appendleft(message)

    def _release(self, token: int) -> Message:
        message = self._locked.pop(token, None)
        if message is None:
            raise LockLostError(f"token {token} locks nothing any more; receive the message again")
        deadlines, locked = self._deadlines, self._locked
        while deadlines and deadlines[0][1] not in locked:
            deadlines.popleft()
        return message
