# SPDX-License-Identifier: Apache-2.0
"""The hand-written PeekLock queue for tasks of one event loop: a receive that finds nothing waits on a future."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from peers.peeklock import PeekLockQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers.peeklock import Message


class PeekLockTasks:
    """The calls of `PeekLockQueue` as coroutines."""

    def __init__(self) -> None:
        self._queue = PeekLockQueue()
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Messages ready or locked."""
        return len(self._queue)

    async def send(self, message: Message) -> None:
        """Append one message."""
        self._queue.send(message)
        self._wake(1)

    async def send_many(self, messages: list[Message]) -> None:
        """Append messages."""
        self._queue.send_many(messages)
        self._wake(len(messages))

    async def receive(self, max_count: int = 1, *, waits: bool = True) -> list[tuple[int, Message]]:
        """Lock up to `max_count` messages and return their tokens; wait for the first if the caller wants that."""
        taken = self._queue.receive(max_count, 0)
        while waits and not taken:
            woken = asyncio.get_running_loop().create_future()
            self._waiting.append(woken)
            try:
                await woken
            except asyncio.CancelledError:
                if not woken.cancelled():
                    self._wake(1)
                raise
            taken = self._queue.receive(max_count, 0)
        return taken

    async def complete(self, token: int) -> None:
        """Remove a locked message for good."""
        self._queue.complete(token)

    async def complete_many(self, tokens: Iterable[int]) -> None:
        """Remove locked messages for good."""
        self._queue.complete_many(tokens)

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                count -= 1
