# SPDX-License-Identifier: Apache-2.0
"""Lists that can be iterated item by item or page by page, for asyncio."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from oxbus._paging import ItemPaged
    from oxbus.aio._calls import CallRunner

T = TypeVar("T")


class AsyncItemPaged(Generic[T]):
    """An asynchronous iterator over items that are fetched on the first access.

    Source: `azure.core.async_paging.AsyncItemPaged`.
    """

    def __init__(self, items: ItemPaged[T], calls: CallRunner) -> None:
        """Create an asynchronous list.

        Args:
            items: The list to iterate.
            calls: Runs its calls.

        Raises nothing.
        """
        self._items = items
        self._calls = calls

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> T:
        """Return the next item."""
        item = await self._calls.call(list, islice(self._items, 1))
        if not item:
            raise StopAsyncIteration
        return item[0]

    async def by_page(self, continuation_token: str | None = None) -> AsyncIterator[list[T]]:
        """Yield pages of up to 100 items.

        Args:
            continuation_token: The number of items to skip, as text. None: 0.

        Raises:
            ValueError: `continuation_token` is not a number of items.
            ServiceBusError: The list cannot be fetched; see the call that returned it.

        Source: docs/behaviour.md B-457; `azure.core.async_paging.AsyncItemPaged.by_page`.
        """
        for page in await self._calls.call(self._items.by_page, continuation_token):
            yield list(page)
