# SPDX-License-Identifier: Apache-2.0
"""Decorators that turn calls of the synchronous administration client into awaitable ones."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from oxbus.aio._paging import AsyncItemPaged

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oxbus._paging import ItemPaged

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


def awaited(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Create a method that awaits `method` of the wrapped client, with the same arguments, docstring and errors."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        result: T = await self._calls.call(method, self._client, *args, **options)
        return result

    return call


def listed(method: Callable[Concatenate[C, P], ItemPaged[T]]) -> Callable[Concatenate[Any, P], AsyncItemPaged[T]]:
    """Create a method that returns the list of `method` of the wrapped client as an asynchronous iterator."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncItemPaged[T]:
        return AsyncItemPaged(method(self._client, *args, **options), self._calls)

    return call
