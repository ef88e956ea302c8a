# SPDX-License-Identifier: Apache-2.0
"""Transactions: operations on one partition that happen together or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from oxbus._oxbus import _Transaction
from oxbus.exceptions import InvalidOperationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from oxbus._oxbus import Namespace

_scope: ContextVar[_Scope | None] = ContextVar("oxbus_transaction_scope", default=None)


class _Scope:
    """One `with transaction.scope()`."""

    def __init__(self, transaction: TransactionScopes) -> None:
        self.transaction = transaction
        self.completed = False


def current() -> TransactionScopes | None:
    """Return the transaction of the scope that the caller is in."""
    scope = _scope.get()
    return None if scope is None else scope.transaction


class TransactionScopes:
    """What transactions have in common, whether their ends are awaited or not."""

    def __init__(self, namespace: Namespace, *, cross_entity: bool = False) -> None:
        """Make a transaction; it begins with its first operation."""
        self._namespace = namespace
        self._cross_entity = cross_entity
        self._native: _Transaction | None = None
        self._scopes: list[_Scope] = []
        """Its scopes since it began."""

    def begin(self) -> None:
        """Begin. Not needed before the first operation; after the end, begins anew.

        Raises:
            InvalidOperationError: It has begun and is not over.
        """
        if self._is_open():
            raise InvalidOperationError("the transaction has begun: commit it or roll it back first")
        self._native = self._namespace._transaction(self._cross_entity)
        self._scopes = []

    @contextmanager
    def scope(self) -> Iterator[Self]:
        """Make every call inside part of the transaction, without passing it; call `complete` at the end.

        A scope that is left without `complete` makes `commit` roll back, whatever the other scopes did.
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
        """Say that the scope did all it wanted to.

        Raises:
            InvalidOperationError: The caller is in no scope of this transaction.
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

    def _commit(self) -> None:
        if all(scope.completed for scope in self._scopes):
            self._begun().commit()
        else:
            self._begun().rollback()

    def _rollback(self) -> None:
        self._begun().rollback()


class Transaction(TransactionScopes):
    """Sends, settlements and session states that happen together or not at all. Made by `ServiceBusClient.transaction`.

    Pass it as ``transaction=`` to each call that is part of it, or make the calls inside `scope`.
    As a context manager it commits at the end, and rolls back on an exception.

    On a partitioned entity all its sends need the same key, and what it settles must be of the same partition.
    It may take two minutes and send 100 messages.

    Source: docs/behaviour.md B-306 to B-330.
    """

    def commit(self) -> None:
        """Let everything happen that was done in it; roll back when a scope of it was left without `complete`.

        Raises:
            MessageLockLostError: A message that it settles is not locked any more; nothing has happened.
            SessionLockLostError: A session is lost; nothing has happened.
            OperationTimeoutError: It took longer than two minutes; nothing has happened.
            InvalidOperationError: It is over.
            ServiceBusQuotaExceededError: An entity is full; nothing has happened.
            PartitionUnavailableError: The partition is out of service.
        """
        self._commit()

    def rollback(self) -> None:
        """Forget everything that was done in it; what it settled is locked as before.

        Raises:
            InvalidOperationError: It is over.
        """
        self._rollback()

    def __enter__(self) -> Self:
        """Begin, unless it has begun, and return the transaction."""
        self._begun()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back on an exception. One that is over already stays as it is."""
        if not self._is_open():
            return
        if exc_type is None:
            self.commit()
        else:
            self.rollback()
