# SPDX-License-Identifier: Apache-2.0
"""Turning the calls of the other administration client into ones that can be awaited."""

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
    """Make a method that calls `method` of the client inside, with the same arguments, text and errors."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        result: T = await self._calls.call(method, self._client, *args, **options)
        return result

    return call


def listed(method: Callable[Concatenate[C, P], ItemPaged[T]]) -> Callable[Concatenate[Any, P], AsyncItemPaged[T]]:
    """Make a method that returns what `method` of the client inside lists."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncItemPaged[T]:
        return AsyncItemPaged(method(self._client, *args, **options), self._calls)

    return call
