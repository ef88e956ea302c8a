# SPDX-License-Identifier: Apache-2.0
"""`Transaction` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._transaction import TransactionScopes

if TYPE_CHECKING:
    from types import TracebackType

    from oxbus._oxbus import Namespace, _RemoteNamespace
    from oxbus.aio._calls import CallRunner


class Transaction(TransactionScopes):
    """Sends, settlements and session states that take effect together or not at all; for asyncio.

    Made by `ServiceBusClient.transaction`. Use it with ``async with``: it commits at the end, and rolls back on an
    exception.
    Pass it as ``transaction=`` to each call that is part of it, or make the calls inside `scope`.

    On a partitioned entity all sends need the same key, and settled messages must be in the same partition.
    A transaction may last two minutes and send 100 messages.

    Source: docs/behaviour.md B-306 to B-330.
    """

    def __init__(
        self, namespace: Namespace | _RemoteNamespace, calls: CallRunner, *, cross_entity: bool = False
    ) -> None:
        """Create a transaction; it begins with its first operation.

        Args:
            namespace: The namespace of its entities.
            calls: Runs its calls.
            cross_entity: Whether it may send to several entities.

        Raises nothing.
        """
        super().__init__(namespace, cross_entity=cross_entity)
        self._calls = calls

    async def commit(self) -> None:
        """Apply all operations of the transaction; roll back if a scope was left without `complete`.

        Raises:
            MessageLockLostError: A message that it settles is no longer locked; nothing took effect.
            SessionLockLostError: A session lock was lost; nothing took effect.
            MessagingEntityNotFoundError: An entity was deleted; nothing took effect.
            MessagingEntityDisabledError: The status of an entity forbids sending; nothing took effect.
            InvalidOperationError: The transaction is over, or the tier has no transactions.
            OperationTimeoutError: The transaction was open for more than two minutes, so nothing took effect; or the
                store did not answer in time.
            ServiceBusQuotaExceededError: An entity or the disk is full; nothing took effect.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether it
                may have been committed.
            ForkedProcessError: The transaction began before the process forked.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-315 to B-319.
        """
        native = self._begun()
        if self._is_complete():
            await self._calls.start(native._committing, native.commit)
        else:
            await self.rollback()

    async def rollback(self) -> None:
        """Discard all operations of the transaction; messages that it settled are locked as before.

        Raises:
            InvalidOperationError: The transaction is over, or the tier has no transactions.
            ForkedProcessError: The transaction began before the process forked.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-316.
        """
        self._rollback()

    async def __aenter__(self) -> Self:
        """Begin unless it has begun, and return the transaction."""
        self._begun()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back on an exception. A transaction that is over stays as it is."""
        if not self._is_open():
            return
        if exc_type is None:
            await self.commit()
        else:
            await self.rollback()
