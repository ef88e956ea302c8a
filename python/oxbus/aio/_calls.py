# SPDX-License-Identifier: Apache-2.0
"""Calls of the native module from an event loop: inline in memory, in the thread pool when they may wait for a store."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace

P = ParamSpec("P")
T = TypeVar("T")


class CallRunner:
    """How the handles of one namespace make their calls."""

    def __init__(self, namespace: Namespace) -> None:
        """Remember whose calls they are: it says whether they may wait."""
        self._namespace = namespace

    async def call(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Make a call. One that is cancelled while it waits for a store ends all the same; its result is lost."""
        return await self.call_or_keep(None, function, *args, **options)

    async def call_or_keep(
        self, keep: Callable[[T], None] | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Make a call; hand its result to `keep` when who waits for it is cancelled."""
        if not self._namespace._may_wait:
            return function(*args, **options)
        pending = asyncio.get_running_loop().run_in_executor(
            None, partial(copy_context().run, function, *args, **options)
        )
        try:
            return await asyncio.shield(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(partial(_keep_result, keep))
            raise


def _keep_result(keep: Callable[[T], None] | None, pending: asyncio.Future[T]) -> None:
    if not pending.cancelled() and pending.exception() is None and keep is not None:
        keep(pending.result())
