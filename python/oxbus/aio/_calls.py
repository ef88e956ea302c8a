# SPDX-License-Identifier: Apache-2.0
"""Blocking calls from an event loop.

In memory they run inline; calls that may wait for a disk or a network run in the loop's thread pool, and those that
wait for a store in a larger one. The most frequent calls avoid it: at the durability `os` they run inline, too, and
those to a server are polled (`_ReadySender`, `_ReadyReceiver`).
An inline call does not suspend its task. So that such calls do not keep other tasks from running, a client has turns
of a few milliseconds, and its first call after a turn lets the other tasks run first.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from oxbus._oxbus import _LoopTurn
from oxbus.aio._wake_ups import wake_ups

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oxbus._oxbus import _NetworkCall

P = ParamSpec("P")
T = TypeVar("T")

TURN_MS = 5
"""How long a client may keep its event loop busy with calls that do not suspend their task."""


CALLS_IN_STORE_MAX = 256
"""How many calls of a client wait for a store at once, each on a thread: a store that answers after 50 ms then still
serves 5,000 calls a second. The loop's own pool has a few threads more than the machine has processors."""


class MayWait(Protocol):
    """A namespace, or the transport to one."""

    @property
    def _may_wait(self) -> bool:
        """Whether a call may wait for a disk or a network."""


class CallRunner:
    """Runs the calls of one client's handles."""

    def __init__(self, namespace: MayWait, *, is_remote: bool = False, is_in_store: bool = False) -> None:
        """Keep the namespace, which knows whether its calls may wait.

        Args:
            namespace: The namespace, or the transport to one.
            is_remote: Whether it is on a server: then a step of a wait only looks at what has arrived.
            is_in_store: Whether it is in a store: then many calls wait at once.
        """
        self._namespace = namespace
        self._is_remote = is_remote
        # Its threads end with it.
        self._pool = ThreadPoolExecutor(CALLS_IN_STORE_MAX, "oxbus-store") if is_in_store else None
        self.turn = _LoopTurn(TURN_MS)
        """Handles with calls that return at once share it."""

    @property
    def may_wait(self) -> bool:
        """Whether a call may wait for a disk or a network."""
        return self._namespace._may_wait

    def call(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run a call. A call that is cancelled while it waits for a store still completes; its result is dropped."""
        return self.call_or_keep(None, function, *args, **options)

    async def call_or_keep(
        self, keep: Callable[[T], None] | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a call. If its caller is cancelled, pass the result to `keep`."""
        if not self._namespace._may_wait:
            return await self._inline(function, *args, **options)
        pending = asyncio.get_running_loop().run_in_executor(
            self._pool, partial(copy_context().run, function, *args, **options)
        )
        try:
            if pending.done():
                # Without the interpreter's lock the thread may have been faster: then nothing has suspended the task.
                await asyncio.sleep(0)
            return await asyncio.shield(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(partial(_keep_result, keep))
            raise
        finally:
            self.turn.begin()

    async def step_or_keep(
        self, keep: Callable[[T], None] | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Take a step of a wait, like `call_or_keep`."""
        if self._is_remote:
            return await self._inline(function, *args, **options)
        return await self.call_or_keep(keep, function, *args, **options)

    async def wait_for(self, call: _NetworkCall) -> None:
        """Make a call to a server that was prepared, and wait for its end."""
        if self.turn.is_over:
            await asyncio.sleep(0)
            self.turn.begin()
        await wake_ups().wait_until_done(call)

    async def _inline(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        if self.turn.is_over:
            await asyncio.sleep(0)
            self.turn.begin()
        return function(*args, **options)


def _keep_result(keep: Callable[[T], None] | None, pending: asyncio.Future[T]) -> None:
    if not pending.cancelled() and pending.exception() is None and keep is not None:
        keep(pending.result())
