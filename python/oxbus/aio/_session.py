# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusSession` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._transaction import current

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from oxbus._oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import ServiceBusSession as NativeSession
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction


class ServiceBusSession:
    """The session of a receiver; `ServiceBusReceiver.session` makes it. The first call accepts the session."""

    def __init__(self, receiver: NativeReceiver, calls: CallRunner, accept: Callable[[], Awaitable[None]]) -> None:
        """Wrap the session of a receiver, which `accept` accepts."""
        self._receiver = receiver
        self._calls = calls
        self._accept = accept
        self._native: NativeSession | None = None
        self.auto_renew_error: Exception | None = None
        """Why an `AutoLockRenewer` stopped renewing its lock."""

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
        """The session; None until it is accepted."""
        return None if self._native is None else self._native.session_id

    @property
    def locked_until_utc(self) -> datetime | None:
        """When its lock ends; None until it is accepted."""
        return None if self._native is None else self._native.locked_until_utc

    async def get_state(self, *, timeout: float | None = None) -> bytes | None:  # noqa: ASYNC109 (the SDK's name)
        """Return the state that was kept with the session; None when none was set."""
        session = await self._accepted()
        return await self._calls.call(session.get_state, timeout=timeout)

    async def set_state(
        self,
        state: str | bytes | bytearray | None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        transaction: Transaction | None = None,
    ) -> None:
        """Keep a state with the session, or clear it with None."""
        session = await self._accepted()
        await self._calls.call(session.set_state, state, timeout=timeout, transaction=transaction or current())

    async def renew_lock(self, *, timeout: float | None = None) -> datetime:  # noqa: ASYNC109
        """Move the end of the lock to one lock duration from now and return it."""
        session = await self._accepted()
        return await self._calls.call(session.renew_lock, timeout=timeout)

    def _renew_now(self) -> datetime:
        assert self._native is not None  # noqa: S101 (it has a lock)
        return self._native.renew_lock()

    @property
    def _lock_expired(self) -> bool:
        return self._native is not None and self._native._lock_expired
