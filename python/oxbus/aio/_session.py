# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusSession` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from oxbus._oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import ServiceBusSession as NativeSession
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction


class ServiceBusSession:
    """The session of a receiver; see `ServiceBusReceiver.session`.

    The first call accepts the session, with the errors that `ServiceBusReceiver` lists for its first call.

    Source: docs/behaviour.md B-200 to B-217; `azure.servicebus.aio.ServiceBusSession`.
    """

    def __init__(self, receiver: NativeReceiver, calls: CallRunner, accept: Callable[[], Awaitable[None]]) -> None:
        """Wrap the session of a receiver.

        Args:
            receiver: The native receiver.
            calls: Runs its calls.
            accept: Accepts the session.

        Raises nothing.
        """
        self._receiver = receiver
        self._calls = calls
        self._accept = accept
        self._native: NativeSession | None = None
        self.auto_renew_error: Exception | None = None
        """Why an `AutoLockRenewer` stopped renewing the lock."""

    async def _accepted(self) -> NativeSession:
        if self._native is None:
            await self._accept()
            self._note_accepted()
        assert self._native is not None  # noqa: S101 (it was accepted)
        return self._native

    def _note_accepted(self) -> None:
        self._native = self._receiver.session

    @property
    def session_id(self) -> str | None:
        """The id of the session; None until it is accepted.

        Raises:
            ForkedProcessError: The receiver was created before the process forked.
        """
        return None if self._native is None else self._native.session_id

    @property
    def locked_until_utc(self) -> datetime | None:
        """When the lock ends, in UTC; None until the session is accepted.

        Raises:
            ForkedProcessError: The receiver was created before the process forked.
        """
        return None if self._native is None else self._native.locked_until_utc

    async def get_state(self, *, timeout: float | None = None) -> bytes | None:  # noqa: ASYNC109 (the SDK's name)
        """Return the state of the session; None when none was set.

        Args:
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            PartitionUnavailableError: The partition of the session is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-210 to B-212.
        """
        session = await self._accepted()
        return await self._calls.call(session.get_state, timeout=timeout)

    async def set_state(
        self,
        state: str | bytes | bytearray | None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        transaction: Transaction | None = None,
    ) -> None:
        """Set the state of the session, or clear it with None. The state outlives the session's messages.

        Args:
            state: Bytes, or text that is stored as UTF-8; at most the entity's message size.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The transaction is over or covers another entity or partition.
            PartitionUnavailableError: The partition of the session is out of service, or its store failed; `effect`
                shows whether the state may have been set.
            OperationTimeoutError: The store did not answer in time, so the state is the new one or the old one; or the
                transaction has been open for more than two minutes.
            ServiceBusQuotaExceededError: The entity, the namespace or the disk is full.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `state` is not bytes, bytearray, str or None, or `transaction` is not a transaction.
            ValueError: The state is too large, the receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-210 to B-213.
        """
        session = await self._accepted()
        await self._calls.start(
            session._setting_state, session.set_state, state, timeout=timeout, transaction=transaction
        )

    async def renew_lock(self, *, timeout: float | None = None) -> datetime:  # noqa: ASYNC109
        """Extend the lock of the session to one lock duration from now.

        Args:
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The new end of the lock, in UTC.

        Raises:
            SessionLockLostError: The lock on the session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            PartitionUnavailableError: The partition of the session is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-202.
        """
        session = await self._accepted()
        return await self._calls.call(session.renew_lock, timeout=timeout)

    def _renew_now(self) -> datetime:
        assert self._native is not None  # noqa: S101 (it has a lock)
        return self._native.renew_lock()

    @property
    def _lock_expired(self) -> bool:
        return self._native is not None and self._native._lock_expired
