# SPDX-License-Identifier: Apache-2.0
"""Blocking calls from an event loop.

In memory they run inline; calls that may wait for a store or a network run in the loop's thread pool.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class MayWait(Protocol):
    """A namespace, or the transport to one."""

    @property
    def _may_wait(self) -> bool:
        """Whether a call may wait for a disk or a network."""


class CallRunner:
    """Runs the calls of one namespace's handles."""

    def __init__(self, namespace: MayWait) -> None:
        """Keep the namespace, which knows whether its calls may wait."""
        self._namespace = namespace

    async def call(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Run a call. A call that is cancelled while it waits for a store still completes; its result is dropped."""
        return await self.call_or_keep(None, function, *args, **options)

    async def call_or_keep(
        self, keep: Callable[[T], None] | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a call. If its caller is cancelled, pass the result to `keep`."""
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
