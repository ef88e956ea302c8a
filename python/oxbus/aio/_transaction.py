# SPDX-License-Identifier: Apache-2.0
"""`Transaction` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._transaction import TransactionScopes

if TYPE_CHECKING:
    from types import TracebackType

    from oxbus._oxbus import Namespace
    from oxbus.aio._calls import CallRunner


class Transaction(TransactionScopes):
    """Operations that happen together or not at all; `commit` and `rollback` are awaited.

    Arguments and errors are those of `oxbus.Transaction`. Use it with ``async with``.
    """

    def __init__(self, namespace: Namespace, calls: CallRunner, *, cross_entity: bool = False) -> None:
        """Make a transaction; it begins with its first operation."""
        super().__init__(namespace, cross_entity=cross_entity)
        self._calls = calls

    async def commit(self) -> None:
        """Let everything happen that was done in it."""
        await self._calls.call(self._commit)

    async def rollback(self) -> None:
        """Forget everything that was done in it."""
        self._rollback()

    async def __aenter__(self) -> Self:
        """Begin, unless it has begun, and return the transaction."""
        self._begun()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back on an exception."""
        if not self._is_open():
            return
        if exc_type is None:
            await self.commit()
        else:
            await self.rollback()
