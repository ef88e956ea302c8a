# SPDX-License-Identifier: Apache-2.0
"""Lock renewal in the background while a slow handler runs.

One thread per renewer watches the registered locks and submits due renewals to a thread pool.
The thread starts with the first registered lock and ends with the last one; a renewer without locks has no thread.
Times are those of the namespace. Under a `ManualClock`, the thread that moves the clock renews (`_manual_renewal`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from oxbus._exit_hook import run_before_pools_join
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
from oxbus._oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from datetime import datetime
    from types import TracebackType

    LockRenewFailureCallback = Callable[[ServiceBusReceivedMessage | ServiceBusSession, Exception | None], None]

_open_renewers: WeakSet[AutoLockRenewer] = WeakSet()


@dataclass(slots=True)
class _ThreadRenewal:
    """A registered lock."""

    receiver: ServiceBusReceiver
    renewable: ServiceBusReceivedMessage | ServiceBusSession
    due: datetime
    """When to renew next."""
    deadline: datetime
    """When to stop renewing."""
    duration: float
    on_failure: LockRenewFailureCallback | None


@explains_options
class AutoLockRenewer:
    """Renews locks until the message is settled, its receiver closes, or the allowed time is over.

    A lock is renewed once half of its duration has passed; under a `ManualClock`, before `advance` returns.
    Pass it to `ServiceBusClient.get_queue_receiver` to register every message, or its session; or call `register`.
    May be shared by threads and receivers; usable as a context manager.

    Source: `azure.servicebus.AutoLockRenewer`; differences in docs/compat.md.
    """

    def __init__(
        self,
        max_lock_renewal_duration: float = 300,
        on_lock_renew_failure: LockRenewFailureCallback | None = None,
        executor: ThreadPoolExecutor | None = None,
        max_workers: int | None = None,
    ) -> None:
        """Create a renewer; no thread starts yet.

        Args:
            max_lock_renewal_duration: Seconds to keep a lock alive, counted from its registration.
            on_lock_renew_failure: Called with the message or session and the error when a lock was lost; the error is
                None when the lock expired before its renewal.
            executor: The thread pool that renews. None: the renewer creates one. `close` shuts it down, as in the SDK.
            max_workers: Number of threads of the created pool. None: the default of `ThreadPoolExecutor`.

        Raises:
            ValueError: `max_lock_renewal_duration` or `max_workers` is not more than 0.
        """
        if max_lock_renewal_duration <= 0:
            raise ValueError(f"max_lock_renewal_duration must be more than 0 seconds: {max_lock_renewal_duration=}")
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers must be at least 1: {max_workers=}")
        self._max_lock_renewal_duration = max_lock_renewal_duration
        self._on_lock_renew_failure = on_lock_renew_failure
        self._executor = executor
        self._max_workers = max_workers
        self._renewals: list[_ThreadRenewal] = []
        self._manual_renewals: ManualRenewals[_ThreadRenewal] = ManualRenewals(_renew_now, self._report_lost)
        self._in_pool = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._worker_local = threading.local()
        self._closed = False

    def __enter__(self) -> Self:
        """Return the renewer."""
        self._check_open()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the renewer."""
        self.close()

    def register(
        self,
        receiver: ServiceBusReceiver,
        renewable: ServiceBusReceivedMessage | ServiceBusSession,
        max_lock_renewal_duration: float | None = None,
        on_lock_renew_failure: LockRenewFailureCallback | None = None,
    ) -> None:
        """Keep the lock of a message or session alive.

        When renewal ends with an error, `auto_renew_error` of the message or session holds it.

        Args:
            receiver: The receiver that returned the message, or that holds the session.
            renewable: The locked message, or the session of the receiver.
            max_lock_renewal_duration: Seconds to keep the lock alive. None: the renewer's own value.
            on_lock_renew_failure: Called when the lock was lost. None: the renewer's own callback.

        Raises:
            ServiceBusError: The renewer is closed.
            TypeError: `renewable` is neither a received message nor a session.
            ValueError: The message has no lock: it was settled, peeked, received in receive-and-delete mode, or belongs
                to a session.
            ForkedProcessError: The receiver was created before the process forked.

        Source: `azure.servicebus.AutoLockRenewer.register`.
        """
        locked_until = lock_end(renewable, ServiceBusSession)
        duration = max_lock_renewal_duration or self._max_lock_renewal_duration
        now = receiver._now()
        renewal = _ThreadRenewal(
            receiver=receiver,
            renewable=renewable,
            due=next_renewal(locked_until, now),
            deadline=now + timedelta(seconds=duration),
            duration=duration,
            on_failure=on_lock_renew_failure or self._on_lock_renew_failure,
        )
        with self._changed:
            self._check_open()
            if receiver._clock is None:
                self._renewals.append(renewal)
            else:
                self._manual_renewals.add(renewal, receiver._clock)
            self._start()
            self._changed.notify_all()

    def close(self, wait: bool = True) -> None:
        """Stop renewing; locks then expire. Raises nothing.

        Args:
            wait: Whether to wait for renewals in progress. A call from a callback of the renewer never waits.
        """
        wait = wait and not getattr(self._worker_local, "thread", False)
        with self._changed:
            self._closed = True
            self._renewals.clear()
            self._manual_renewals.clear()
            self._changed.notify_all()
            thread, executor = self._thread, self._executor
        if thread is not None and wait:
            thread.join()
        if executor is not None:
            executor.shutdown(wait=wait)

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceBusError("the AutoLockRenewer is closed: create a new one", condition="amqp:illegal-state")

    def _start(self) -> None:
        """Start the thread unless it runs; the caller holds the condition."""
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (heavy, and not every program renews)

            self._executor = ThreadPoolExecutor(self._max_workers, thread_name_prefix="oxbus-renew")
        if self._thread is None:
            _open_renewers.add(self)
            run_before_pools_join(_stop_all)
            self._thread = threading.Thread(target=self._watch, name="oxbus-lock-renewer")
            self._thread.start()

    def _watch(self) -> None:
        """Renew due locks until none is left."""
        with self._changed:
            while not self._closed and (self._renewals or self._manual_renewals or self._in_pool):
                self._changed.wait(self._submit_due())
            self._thread = None

    def _submit_due(self) -> float:
        """Submit every due lock to the pool; return the seconds until the next check."""
        self._manual_renewals.renew_due()
        watched = []
        wait = CHECK_INTERVAL_SECONDS
        for renewal in self._renewals:
            if is_committing(renewal.renewable):
                watched.append(renewal)
            elif _is_live(renewal):
                seconds = (min(renewal.due, renewal.deadline) - renewal.receiver._now()).total_seconds()
                if seconds <= 0:
                    self._submit(self._renew, renewal)
                else:
                    watched.append(renewal)
                    wait = min(wait, seconds)
            elif renewal.renewable._lock_expired:
                self._submit(self._run_callback, renewal, None)
        self._renewals = watched
        return wait

    def _submit(self, task: Callable[..., None], *arguments: object) -> None:
        """Run `task` in the pool; the caller holds the condition."""
        assert self._executor is not None  # noqa: S101 (`_start` made it)
        self._executor.submit(self._run, task, *arguments)
        self._in_pool += 1

    def _run(self, task: Callable[..., None], *arguments: object) -> None:
        self._worker_local.thread = True
        try:
            task(*arguments)
        finally:
            self._worker_local.thread = False
            with self._changed:
                self._in_pool -= 1
                self._changed.notify_all()

    def _renew(self, renewal: _ThreadRenewal) -> None:
        """Renew one lock and watch it again, or report the failure."""
        renewable = renewal.renewable
        # Read before the renewal, so that a clock that moves during it does not make the lock look shorter.
        now = renewal.receiver._now()
        if now >= renewal.deadline:
            renewable.auto_renew_error = renewal_timed_out(renewal.duration)
            return
        try:
            locked_until = _renew_now(renewal)
        except Exception as error:  # noqa: BLE001 (the message must report any error)
            if is_settled(renewable) or renewal.receiver.closed:
                return  # While the renewal was under way.
            if is_committing(renewable):
                self._requeue(renewal)
                return
            renewable.auto_renew_error = renewal_failed(error)
            self._run_callback(renewal, renewable.auto_renew_error)
            return
        renewal.due = next_renewal(locked_until, now)
        self._requeue(renewal)

    def _requeue(self, renewal: _ThreadRenewal) -> None:
        with self._changed:
            if not self._closed:
                self._renewals.append(renewal)

    def _report_lost(self, renewal: _ThreadRenewal, error: Exception | None) -> None:
        """Run the callback in the pool."""
        with self._changed:
            if not self._closed:
                self._submit(self._run_callback, renewal, error)

    @staticmethod
    def _run_callback(renewal: _ThreadRenewal, error: Exception | None) -> None:
        if renewal.on_failure is None:
            return
        try:
            renewal.on_failure(renewal.renewable, error)
        except Exception:  # A broken callback must not end the renewals of other locks.
            import logging  # noqa: PLC0415 (only needed here)

            logging.getLogger("oxbus").exception("on_lock_renew_failure raised")


def _renew_now(renewal: _ThreadRenewal) -> datetime:
    """Renew a lock and return its new end."""
    if isinstance(renewal.renewable, ServiceBusSession):
        return renewal.renewable.renew_lock()
    return renewal.receiver.renew_message_lock(renewal.renewable)


def _is_live(renewal: _ThreadRenewal) -> bool:
    renewable = renewal.renewable
    return not (renewal.receiver.closed or is_settled(renewable) or renewable._lock_expired)


def _stop_all() -> None:
    """Stop all renewers at exit: the interpreter would otherwise join their threads until the locks end."""
    for renewer in list(_open_renewers):
        renewer.close(wait=False)
