# SPDX-License-Identifier: Apache-2.0
"""Rules shared by both lock renewers: which locks can be renewed, when, and the errors that end renewal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._oxbus import ServiceBusReceivedMessage
from oxbus.exceptions import AutoLockRenewFailed, AutoLockRenewTimeout

if TYPE_CHECKING:
    from datetime import datetime

CHECK_INTERVAL_SECONDS = 0.25


def next_renewal(locked_until: datetime, now: datetime) -> datetime:
    """Return when to renew a lock: halfway to its end, so that the lock still holds when the renewal is late."""
    return now + (locked_until - now) / 2


def lock_end(renewable: object, session_class: type) -> datetime:
    """Return when the lock of a message or session ends.

    Raises:
        TypeError: `renewable` is neither a message nor a session.
        ValueError: It has no lock.
    """
    if not isinstance(renewable, (ServiceBusReceivedMessage, session_class)):
        raise TypeError(
            f"renewable must be a ServiceBusReceivedMessage or a ServiceBusSession, not {type(renewable).__name__}"
        )
    locked_until: datetime | None = renewable.locked_until_utc  # type: ignore[attr-defined] # both classes have it
    if locked_until is None:
        raise ValueError(
            "there is no lock to renew: the message was settled, peeked, or received in RECEIVE_AND_DELETE mode, or it "
            "belongs to a session. Receive it in PEEK_LOCK mode and register it before it is settled; for a session, "
            "register receiver.session."
        )
    return locked_until


def is_settled(renewable: object) -> bool:
    """Return whether a message is settled; a session never is."""
    return isinstance(renewable, ServiceBusReceivedMessage) and renewable._settled


def is_committing(renewable: object) -> bool:
    """Return whether a running commit settles the message. Its lock cannot be renewed until the commit ends."""
    return isinstance(renewable, ServiceBusReceivedMessage) and renewable._committing


def renewal_timed_out(seconds: float) -> AutoLockRenewTimeout:
    """Return the error for a lock that was renewed for the longest allowed time."""
    return AutoLockRenewTimeout(
        f"the lock was renewed for the allowed {seconds} seconds: "
        "use a longer max_lock_renewal_duration, or settle the message sooner"
    )


def renewal_failed(error: Exception) -> AutoLockRenewFailed:
    """Return the error for a lock that could not be renewed."""
    return AutoLockRenewFailed(f"the lock could not be renewed: {error}. Receive the message again.", error=error)
