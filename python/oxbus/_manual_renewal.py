# SPDX-License-Identifier: Apache-2.0
"""Lock renewal under clocks that are moved by hand.

The thread that moves the clock renews due locks before `ManualClock.advance` returns, so no caller has to wait.
No user code runs in that thread: the renewer runs failure callbacks in a separate thread or task. A callback may
therefore move the clock, close the renewer, or wait for a lock that the moving thread holds.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from oxbus._lock_renewal import is_committing, is_settled, next_renewal, renewal_failed, renewal_timed_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from oxbus._oxbus import ManualClock


class LockRenewal(Protocol):
    """A registered lock."""

    receiver: Any
    renewable: Any
    due: datetime
    """When to renew next."""
    deadline: datetime
    """When to stop renewing."""
    duration: float
    """Seconds from the registration to the deadline."""


R = TypeVar("R", bound=LockRenewal)


class ManualRenewals(Generic[R]):
    """The locks of one renewer that follow manual clocks. Thread-safe.

    Args:
        renew: Renews a lock and returns its new end.
        report_lost: Schedules the callback for a lost lock, with the error or None.
    """

    def __init__(self, renew: Callable[[R], datetime], report_lost: Callable[[R, Exception | None], None]) -> None:
        self._renew = renew
        self._report_lost = report_lost
        self._renewals: list[R] = []
        self._clocks: list[ManualClock] = []
        # Reentrant: the garbage collector may run a finalizer that moves a clock while this thread holds the lock.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __bool__(self) -> bool:
        """Whether there is a lock to renew."""
        return bool(self._renewals)

    def add(self, renewal: R, clock: ManualClock) -> None:
        """Start to renew a lock when its clock passes `due`."""
        with self._lock:
            self._renewals.append(renewal)
            if not any(known is clock for known in self._clocks):
                self._clocks.append(clock)
                clock._follow(self)

    def clear(self) -> None:
        """Stop renewing all locks."""
        with self._lock:
            self._renewals.clear()

    def renew_due(self) -> None:
        """Renew due locks. Drop each lock that is lost, or whose message is settled or receiver is closed."""
        if os.getpid() != self._process:
            return  # After a fork the locks belong to the parent process.
        lost: list[tuple[R, Exception | None]] = []
        with self._lock:
            ended = {id(renewal) for renewal in tuple(self._renewals) if not self._renew_if_due(renewal, lost)}
            self._renewals = [renewal for renewal in self._renewals if id(renewal) not in ended]
        for renewal, error in lost:
            self._report_lost(renewal, error)

    def _renew_if_due(self, renewal: R, lost: list[tuple[R, Exception | None]]) -> bool:
        """Renew a due lock; return whether to keep it."""
        renewable = renewal.renewable
        if is_settled(renewable) or renewal.receiver.closed:
            return False
        if is_committing(renewable):
            return True
        if renewable._lock_expired:
            lost.append((renewal, None))
            return False
        now = renewal.receiver._now()
        if now >= renewal.deadline:
            renewable.auto_renew_error = renewal_timed_out(renewal.duration)
            return False
        return now < renewal.due or self._renew_now(renewal, now, lost)

    def _renew_now(self, renewal: R, now: datetime, lost: list[tuple[R, Exception | None]]) -> bool:
        """Renew a lock; return whether to keep it."""
        renewable = renewal.renewable
        try:
            renewal.due = next_renewal(self._renew(renewal), now)
        except Exception as error:  # noqa: BLE001 (any error becomes `auto_renew_error`)
            # The message may have been settled, or its receiver closed, during the renewal.
            if is_committing(renewable):
                return True
            if not (is_settled(renewable) or renewal.receiver.closed):
                renewable.auto_renew_error = renewal_failed(error)
                lost.append((renewal, renewable.auto_renew_error))
            return False
        return True
