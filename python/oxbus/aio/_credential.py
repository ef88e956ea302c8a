# SPDX-License-Identifier: Apache-2.0
"""Credentials with an awaitable `get_token`, such as those of `azure.identity.aio`, for calls from another thread."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


class LoopCredential:
    """Runs the awaitable `get_token` of a credential in the event loop in which it was made."""

    def __init__(self, credential: Any) -> None:
        """Keep the credential.

        Raises:
            RuntimeError: No event loop runs.
        """
        self._credential = credential
        self._loop = asyncio.get_running_loop()

    def get_token(self, scope: str) -> Any:
        """Return a token; blocks the thread, which is not that of the event loop."""
        return asyncio.run_coroutine_threadsafe(self._credential.get_token(scope), self._loop).result()


def in_loop(credential: object) -> object:
    """Return a credential for calls from other threads: itself, unless its `get_token` is awaitable.

    Raises:
        RuntimeError: It is awaitable, and no event loop runs: make the client in a coroutine.
    """
    is_awaitable = inspect.iscoroutinefunction(getattr(credential, "get_token", None))
    return LoopCredential(credential) if is_awaitable else credential
