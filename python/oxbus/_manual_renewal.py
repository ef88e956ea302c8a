# SPDX-License-Identifier: Apache-2.0
"""Renewing locks under clocks that are moved by hand.

The thread that moves such a clock renews what is due before `ManualClock.advance` returns, so nobody has to wait. No
code of the user runs there. A failure goes to the renewer, which calls back from a thread or a task of its own. So a
callback may move the clock, close the renewer, or wait for a lock that the moving thread holds.
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


R = TypeVar("R", bound=LockRenewal)


class ManualRenewals(Generic[R]):
    """The locks of one renewer that are under clocks moved by hand. May be used by several threads.

    Args:
        renew: Renews a lock and returns when it ends now.
        report_lost: Calls back, elsewhere and later, that a lock is lost, with the error or None.
    """

    def __init__(self, renew: Callable[[R], datetime], report_lost: Callable[[R, Exception | None], None]) -> None:
        self._renew = renew
        self._report_lost = report_lost
        self._renewals: list[R] = []
        self._clocks: list[ManualClock] = []
        # Reentrant: what the garbage collector runs in between may move a clock, too.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __bool__(self) -> bool:
        """True while there is a lock to renew."""
        return bool(self._renewals)

    def add(self, renewal: R, clock: ManualClock) -> None:
        """Renew a lock from now on whenever that is due by its clock."""
        with self._lock:
            self._renewals.append(renewal)
            if not any(known is clock for known in self._clocks):
                self._clocks.append(clock)
                clock._follow(self)

    def clear(self) -> None:
        """Renew nothing any more."""
        with self._lock:
            self._renewals.clear()

    def renew_due(self) -> None:
        """Renew what is due, and forget what is settled, closed or lost."""
        if os.getpid() != self._process:
            return  # What a forked child has belongs to its parent.
        lost: list[tuple[R, Exception | None]] = []
        with self._lock:
            ended = {id(renewal) for renewal in tuple(self._renewals) if not self._renew_if_due(renewal, lost)}
            self._renewals = [renewal for renewal in self._renewals if id(renewal) not in ended]
        for renewal, error in lost:
            self._report_lost(renewal, error)

    def _renew_if_due(self, renewal: R, lost: list[tuple[R, Exception | None]]) -> bool:
        """Renew a lock if it is due; whether to go on with it."""
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
        """Renew a lock; whether to go on with it."""
        renewable = renewal.renewable
        try:
            renewal.due = next_renewal(self._renew(renewal), now)
        except Exception as error:  # noqa: BLE001 (whatever it was, the message must tell)
            # It may have been settled, or its receiver closed, while the renewal was under way.
            if is_committing(renewable):
                return True
            if not (is_settled(renewable) or renewal.receiver.closed):
                renewable.auto_renew_error = renewal_failed(error)
                lost.append((renewal, renewable.auto_renew_error))
            return False
        return True
