# SPDX-License-Identifier: Apache-2.0
"""Blocking calls from an event loop.

In memory they run inline; calls that may wait for a disk or a network run in the loop's thread pool. The most frequent
calls avoid it: at the durability `os` they run inline, too, and those to a server or a store hold no thread while they
wait (`_ReadySender`, `_ReadyReceiver`, `_PendingCall`).
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

    from oxbus._oxbus import _PendingCall

P = ParamSpec("P")
T = TypeVar("T")

TURN_MS = 5
"""How long a client may keep its event loop busy with calls that do not suspend their task."""

THREADS_IN_STORE_MAX = 32
"""Threads of a client for the calls to a store that are not a `_PendingCall`. The loop's own pool has a few threads,
which they would keep from its work while the store is away."""


class MayWait(Protocol):
    """A namespace, or the transport to one."""

    @property
    def _may_wait(self) -> bool:
        """Whether a call may wait for a disk or a network."""


class Keeper:
    """Keeps the results of calls whose callers were cancelled."""

    def __init__(self, keep: Callable[[Any], None]) -> None:
        """Pass each result to `keep`."""
        self._keep = keep
        self.pending: set[asyncio.Future[Any]] = set()
        """Calls that have not ended."""

    def wait_for(self, pending: asyncio.Future[Any]) -> None:
        """Keep the result of a call."""
        self.pending.add(pending)
        pending.add_done_callback(self._ended)

    def _ended(self, pending: asyncio.Future[Any]) -> None:
        self.pending.discard(pending)
        if not pending.cancelled() and pending.exception() is None:
            self._keep(pending.result())


def _drop(result: object) -> None:
    """Nobody needs the result."""


class CallRunner:
    """Runs the calls of one client's handles."""

    def __init__(self, namespace: MayWait, *, is_remote: bool = False, is_in_store: bool = False) -> None:
        """Keep the namespace, which knows whether its calls may wait.

        Args:
            namespace: The namespace, or the transport to one.
            is_remote: Whether it is on a server: then a step of a wait only looks at what has arrived.
            is_in_store: Whether it is in a store: then most calls hold no thread while the store takes its time.
        """
        self._namespace = namespace
        self._is_remote = is_remote
        self.is_in_store = is_in_store
        # Its threads end with it.
        self._pool = ThreadPoolExecutor(THREADS_IN_STORE_MAX, "oxbus-store") if is_in_store else None
        self._dropped = Keeper(_drop)
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
        self, keeper: Keeper | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a call. If its caller is cancelled, `keeper` gets the result."""
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
            (keeper or self._dropped).wait_for(pending)
            raise
        finally:
            self.turn.begin()

    async def step_or_keep(
        self, keeper: Keeper | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Take a step of a wait, like `call_or_keep`."""
        if self._is_remote:
            return await self._inline(function, *args, **options)
        return await self.call_or_keep(keeper, function, *args, **options)

    def start(
        self, start: Callable[P, _PendingCall | None], function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Start a call and wait for its end without a thread. One that cannot be started is run as `function`."""
        return self.start_or_keep(self._dropped, start, function, *args, **options)

    async def start_or_keep(
        self,
        keeper: Keeper,
        start: Callable[P, _PendingCall | None],
        function: Callable[P, T],
        /,
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Start a call like `start`. If its caller is cancelled, `keeper` gets the result."""
        call = start(*args, **options)
        if call is None:
            return await self.call_or_keep(keeper, function, *args, **options)
        result: T = await self.result_of(call, keeper)
        return result

    async def result_of(self, call: _PendingCall, keeper: Keeper | None = None) -> Any:
        """Wait for a call that was started.

        If the caller is cancelled, `keeper` gets the result. Without one the call is dropped: one to a server may have
        had its effect, one to a store has it, and releases what it has received.
        """
        try:
            if self.turn.is_over:
                await asyncio.sleep(0)
                self.turn.begin()
            return await wake_ups().result_of(call)
        except asyncio.CancelledError:
            if keeper is None:
                call.cancel()
            else:
                keeper.wait_for(asyncio.get_running_loop().create_task(wake_ups().result_of(call)))
            raise

    async def _inline(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        if self.turn.is_over:
            await asyncio.sleep(0)
            self.turn.begin()
        return function(*args, **options)
