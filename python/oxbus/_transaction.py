# SPDX-License-Identifier: Apache-2.0
"""Transactions: operations on one partition that take effect together or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from oxbus._oxbus import _Transaction
from oxbus.exceptions import InvalidOperationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from oxbus._oxbus import Namespace, _RemoteNamespace

_scope: ContextVar[_Scope | None] = ContextVar("oxbus_transaction_scope", default=None)


class _Scope:
    """One `with transaction.scope()` block."""

    def __init__(self, transaction: TransactionScopes) -> None:
        self.transaction = transaction
        self.completed = False


def current() -> TransactionScopes | None:
    """Return the transaction of the current scope; None outside of any."""
    scope = _scope.get()
    return None if scope is None else scope.transaction


class TransactionScopes:
    """The part of a transaction that the synchronous and the asyncio class share."""

    def __init__(self, namespace: Namespace | _RemoteNamespace, *, cross_entity: bool = False) -> None:
        """Create a transaction; it begins with its first operation.

        Args:
            namespace: The namespace of its entities.
            cross_entity: Whether it may send to several entities.

        Raises nothing.
        """
        self._namespace = namespace
        self._cross_entity = cross_entity
        self._native: _Transaction | None = None
        self._scopes: list[_Scope] = []
        """Its scopes since it began."""

    def begin(self) -> None:
        """Begin the transaction. Optional before the first operation; after the end it begins again.

        Raises:
            InvalidOperationError: The transaction has begun and is not over, or the tier has no transactions.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-306, B-318.
        """
        if self._is_open():
            raise InvalidOperationError("the transaction has begun: commit it or roll it back first")
        self._native = self._namespace._transaction(self._cross_entity)
        self._scopes = []

    @contextmanager
    def scope(self) -> Iterator[Self]:
        """Include every call in the block, even without ``transaction=``; call `complete` at the end.

        If a scope is left without `complete`, `commit` rolls back, whatever the other scopes did.

        Raises:
            InvalidOperationError: The tier has no transactions.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: The namespace is closed.

        Source: `TransactionScope` of the .NET SDK.
        """
        self._begun()
        scope = _Scope(self)
        self._scopes.append(scope)
        token = _scope.set(scope)
        _Transaction.count_scope(True)
        try:
            yield self
        except BaseException:
            scope.completed = False
            raise
        finally:
            _Transaction.count_scope(False)
            _scope.reset(token)

    def complete(self) -> None:
        """Mark the current scope as successful.

        Raises:
            InvalidOperationError: The caller is not in a scope of this transaction.

        Source: `TransactionScope.Complete` of the .NET SDK.
        """
        scope = _scope.get()
        if scope is None or scope.transaction is not self:
            raise InvalidOperationError("there is no scope to complete: call it inside `with transaction.scope():`")
        scope.completed = True

    def _begun(self) -> _Transaction:
        if self._native is None:
            self.begin()
        assert self._native is not None  # noqa: S101 (it has begun)
        return self._native

    def _is_open(self) -> bool:
        return self._native is not None and self._native.is_open

    def _is_complete(self) -> bool:
        return all(scope.completed for scope in self._scopes)

    def _commit(self) -> None:
        if self._is_complete():
            self._begun().commit()
        else:
            self._begun().rollback()

    def _rollback(self) -> None:
        self._begun().rollback()


class Transaction(TransactionScopes):
    """Sends, settlements and session states that take effect together or not at all.

    Made by `ServiceBusClient.transaction`. Pass it as ``transaction=`` to each call that is part of it, or make the
    calls inside `scope`. As a context manager it commits at the end, and rolls back on an exception.

    On a partitioned entity all sends need the same key, and settled messages must be in the same partition.
    A transaction may last two minutes and send 100 messages.

    Source: docs/behaviour.md B-306 to B-330.
    """

    def commit(self) -> None:
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
        self._commit()

    def rollback(self) -> None:
        """Discard all operations of the transaction; messages that it settled are locked as before.

        Raises:
            InvalidOperationError: The transaction is over, or the tier has no transactions.
            ForkedProcessError: The transaction began before the process forked.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-316.
        """
        self._rollback()

    def __enter__(self) -> Self:
        """Begin unless it has begun, and return the transaction."""
        self._begun()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back on an exception. A transaction that is over stays as it is."""
        if not self._is_open():
            return
        if exc_type is None:
            self.commit()
        else:
            self.rollback()
