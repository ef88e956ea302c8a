# SPDX-License-Identifier: Apache-2.0
"""Lists that can be iterated item by item or page by page, as in the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ITEMS_PER_PAGE = 100
"""Items per page. Source: docs/behaviour.md B-457."""

T = TypeVar("T")


class ItemPaged(Generic[T]):
    """An iterator over items that are fetched on the first access.

    Source: `azure.core.paging.ItemPaged`.
    """

    def __init__(self, fetch: Callable[[], Sequence[T]]) -> None:
        """Create a list of lazily fetched items.

        Args:
            fetch: Returns the items.

        Raises nothing.
        """
        self._fetch = fetch
        self._items: Iterator[T] | None = None

    def __iter__(self) -> Self:
        """Return the iterator itself."""
        return self

    def __next__(self) -> T:
        """Return the next item."""
        if self._items is None:
            self._items = iter(self._fetch())
        return next(self._items)

    def by_page(self, continuation_token: str | None = None) -> Iterator[Iterator[T]]:
        """Return an iterator over pages of up to 100 items.

        Args:
            continuation_token: The number of items to skip, as text. None: 0.

        Raises:
            ValueError: `continuation_token` is not a number, or is negative.
            ServiceBusError: The list cannot be fetched; see the call that returned it.

        Source: docs/behaviour.md B-457; `azure.core.paging.ItemPaged.by_page`.
        """
        first = int(continuation_token or 0)
        if first < 0:
            raise ValueError(f"continuation_token must not be negative: {continuation_token=}")
        items = self._fetch()
        return (iter(items[start : start + ITEMS_PER_PAGE]) for start in range(first, len(items), ITEMS_PER_PAGE))
