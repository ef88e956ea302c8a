# SPDX-License-Identifier: Apache-2.0
"""Credentials with an awaitable `get_token`, such as those of `azure.identity.aio`, for calls in a thread."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from oxbus.aio._calls import CallRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.aio._calls import Keeper

P = ParamSpec("P")
T = TypeVar("T")

_calling_loop: ContextVar[asyncio.AbstractEventLoop] = ContextVar("_calling_loop")
"""The event loop of the call that runs in this thread."""


class LoopCalls(CallRunner):
    """Runs calls that know their event loop."""

    async def call_or_keep(
        self, keeper: Keeper | None, function: Callable[P, T], /, *args: P.args, **options: P.kwargs
    ) -> T:
        """Run a call. If its caller is cancelled, `keeper` gets the result."""
        before = _calling_loop.set(asyncio.get_running_loop())
        try:
            return await super().call_or_keep(keeper, function, *args, **options)
        finally:
            _calling_loop.reset(before)


class LoopCredential:
    """Runs the awaitable `get_token` of a credential in the event loop of the call."""

    def __init__(self, credential: Any) -> None:
        """Keep the credential."""
        self._credential = credential

    def get_token(self, scope: str) -> Any:
        """Return a token; blocks the thread, which is not that of the event loop."""
        return asyncio.run_coroutine_threadsafe(self._credential.get_token(scope), _calling_loop.get()).result()


def synchronous(credential: object) -> object:
    """Return a credential for calls in a thread: itself, unless its `get_token` is awaitable."""
    is_awaitable = inspect.iscoroutinefunction(getattr(credential, "get_token", None))
    return LoopCredential(credential) if is_awaitable else credential
