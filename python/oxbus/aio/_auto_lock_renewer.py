# SPDX-License-Identifier: Apache-2.0
"""Lock renewal for asyncio while a slow handler runs: one task per renewer, and no task without locks."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from oxbus._lock_renewal import (
    CHECK_INTERVAL_SECONDS,
    is_committing,
    is_settled,
    lock_end,
    next_renewal,
    renewal_failed,
    renewal_timed_out,
)
from oxbus._manual_renewal import ManualRenewals
from oxbus._options import explains_options
from oxbus.aio._session import ServiceBusSession
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from types import TracebackType

    from oxbus._oxbus import ServiceBusReceivedMessage
    from oxbus.aio._receiver import ServiceBusReceiver

    AsyncLockRenewFailureCallback = Callable[
        [ServiceBusReceivedMessage | ServiceBusSession, Exception | None], Awaitable[None]
    ]


@dataclass(slots=True)
class _TaskRenewal:
    """A registered lock."""

    receiver: ServiceBusReceiver
    renewable: ServiceBusReceivedMessage | ServiceBusSession
    due: datetime
    deadline: datetime
    duration: float
    on_failure: AsyncLockRenewFailureCallback | None


@explains_options
class AutoLockRenewer:
    """Renews locks until the message is settled, its receiver closes, or the allowed time is over.

    A lock is renewed once half of its duration has passed; under a `ManualClock`, before `advance` returns.
    Times are those of the namespace.
    For one event loop; usable as an asynchronous context manager.

    Source: `azure.servicebus.aio.AutoLockRenewer`; differences in docs/compat.md.
    """

    def __init__(
        self,
        max_lock_renewal_duration: float = 300,
        on_lock_renew_failure: AsyncLockRenewFailureCallback | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Create a renewer; no task starts yet.

        Args:
            max_lock_renewal_duration: Seconds to keep a lock alive, counted from its registration.
            on_lock_renew_failure: Awaited with the message or session and the error when a lock was lost; the error is
                None when the lock expired before its renewal.
            loop: The event loop to run in. None: the running one.

        Raises:
            ValueError: `max_lock_renewal_duration` is not more than 0.
        """
        if max_lock_renewal_duration <= 0:
            raise ValueError(f"max_lock_renewal_duration must be more than 0 seconds: {max_lock_renewal_duration=}")
        self._max_lock_renewal_duration = max_lock_renewal_duration
        self._on_lock_renew_failure = on_lock_renew_failure
        self._loop = loop
        self._running_loop: asyncio.AbstractEventLoop | None = None
        self._renewals: list[_TaskRenewal] = []
        self._manual_renewals: ManualRenewals[_TaskRenewal] = ManualRenewals(_renew_now, self._report_lost)
        self._callback_tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        """Return the renewer."""
        self._check_open()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the renewer."""
        await self.close()

    def register(
        self,
        receiver: ServiceBusReceiver,
        renewable: ServiceBusReceivedMessage | ServiceBusSession,
        max_lock_renewal_duration: float | None = None,
        on_lock_renew_failure: AsyncLockRenewFailureCallback | None = None,
    ) -> None:
        """Keep the lock of a message or session alive.

        When renewal ends with an error, `auto_renew_error` of the message or session holds it.

        Args:
            receiver: The receiver that returned the message, or that holds the session.
            renewable: The locked message, or the session of the receiver.
            max_lock_renewal_duration: Seconds to keep the lock alive. None: the renewer's own value.
            on_lock_renew_failure: Awaited when the lock was lost. None: the renewer's own callback.

        Raises:
            ServiceBusError: The renewer is closed.
            TypeError: `renewable` is neither a received message nor a session.
            ValueError: The message has no lock: it was settled, peeked, received in receive-and-delete mode, or belongs
                to a session.
            RuntimeError: No event loop is running, and the renewer was created without one.
            ForkedProcessError: The receiver was created before the process forked.

        Source: `azure.servicebus.aio.AutoLockRenewer.register`.
        """
        self._check_open()
        locked_until = lock_end(renewable, ServiceBusSession)
        duration = max_lock_renewal_duration or self._max_lock_renewal_duration
        now = receiver._now()
        renewal = _TaskRenewal(
            receiver=receiver,
            renewable=renewable,
            due=next_renewal(locked_until, now),
            deadline=now + timedelta(seconds=duration),
            duration=duration,
            on_failure=on_lock_renew_failure or self._on_lock_renew_failure,
        )
        loop = self._running_loop = self._loop or asyncio.get_running_loop()
        if receiver._clock is None:
            self._renewals.append(renewal)
        else:
            self._manual_renewals.add(renewal, receiver._clock)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._watch(), name="oxbus-lock-renewer")

    async def close(self) -> None:
        """Stop renewing; locks then expire. A renewal in progress finishes first. Raises nothing."""
        self._closed = True
        self._renewals.clear()
        self._manual_renewals.clear()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            await asyncio.wait((task,))

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceBusError("the AutoLockRenewer is closed: create a new one", condition="amqp:illegal-state")

    async def _watch(self) -> None:
        """Renew due locks until none is left."""
        while self._renewals or self._manual_renewals:
            self._manual_renewals.renew_due()
            checked, self._renewals = self._renewals, []
            remaining = [renewal for renewal in checked if await self._renew_if_due(renewal)]
            if self._closed:
                return
            self._renewals += remaining
            if self._renewals or self._manual_renewals:
                await asyncio.sleep(min((CHECK_INTERVAL_SECONDS, *map(_seconds_left, self._renewals))))

    def _report_lost(self, renewal: _TaskRenewal, error: Exception | None) -> None:
        """Schedule the callback in the event loop, from any thread."""
        loop = self._running_loop
        if loop is not None and not loop.is_closed() and not self._closed:
            loop.call_soon_threadsafe(self._start_callback, renewal, error)

    def _start_callback(self, renewal: _TaskRenewal, error: Exception | None) -> None:
        task = asyncio.get_running_loop().create_task(_run_callback(renewal, error))
        # The loop holds only weak references to its tasks.
        self._callback_tasks.add(task)
        task.add_done_callback(self._callback_tasks.discard)

    async def _renew_if_due(self, renewal: _TaskRenewal) -> bool:
        """Renew a due lock; return whether to keep watching it."""
        renewable = renewal.renewable
        if is_settled(renewable) or renewal.receiver.closed or self._closed:
            return False
        if is_committing(renewable):
            return _postpone(renewal)
        if renewable._lock_expired:
            await _run_callback(renewal, None)
            return False
        return _seconds_left(renewal) > 0 or await _renew(renewal)


def _renew_now(renewal: _TaskRenewal) -> datetime:
    """Renew a lock in this thread and return its new end."""
    if isinstance(renewal.renewable, ServiceBusSession):
        return renewal.renewable._renew_now()
    return renewal.receiver._receiver.renew_message_lock(renewal.renewable)


def _seconds_left(renewal: _TaskRenewal) -> float:
    return max(0.0, (min(renewal.due, renewal.deadline) - renewal.receiver._now()).total_seconds())


async def _renew(renewal: _TaskRenewal) -> bool:
    """Renew a lock; return whether to keep watching it."""
    renewable = renewal.renewable
    now = renewal.receiver._now()
    if now >= renewal.deadline:
        renewable.auto_renew_error = renewal_timed_out(renewal.duration)
        return False
    try:
        if isinstance(renewable, ServiceBusSession):
            locked_until = await renewable.renew_lock()
        else:
            locked_until = await renewal.receiver.renew_message_lock(renewable)
    except Exception as error:  # noqa: BLE001 (the message must report any error)
        if is_committing(renewable):
            return _postpone(renewal)
        await _report_failure(renewal, error)
        return False
    renewal.due = next_renewal(locked_until, now)
    return True


def _postpone(renewal: _TaskRenewal) -> bool:
    """Check a lock again later: a commit holds it now."""
    renewal.due = renewal.receiver._now() + timedelta(seconds=CHECK_INTERVAL_SECONDS)
    return True


async def _report_failure(renewal: _TaskRenewal, error: Exception) -> None:
    """Report why a lock could not be renewed, unless the message was settled or the receiver closed by then."""
    renewable = renewal.renewable
    if is_settled(renewable) or renewal.receiver.closed:
        return
    renewable.auto_renew_error = renewal_failed(error)
    await _run_callback(renewal, renewable.auto_renew_error)


async def _run_callback(renewal: _TaskRenewal, error: Exception | None) -> None:
    if renewal.on_failure is None:
        return
    try:
        await renewal.on_failure(renewal.renewable, error)
    except Exception:  # A broken callback must not end the renewals of other locks.
        logging.getLogger("oxbus").exception("on_lock_renew_failure raised")
