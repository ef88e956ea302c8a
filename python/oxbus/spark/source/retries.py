# SPDX-License-Identifier: Apache-2.0
"""Retries while the broker is unavailable, for idempotent calls and for calls that had no effect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from oxbus.exceptions import (
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_SECONDS = 30.0
"""How long a broker may take to restart."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


def retry_idempotent(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make an idempotent call; repeat it while the broker cannot be reached or is busy.

    Raises:
        ServiceBusConnectionError: The broker could not be reached for half a minute.
        ServiceBusServerBusyError: The broker was busy for half a minute.
        Exception: Any other error of the call.
    """
    return _retry_while(lambda _error: True, lambda: call(*args, **options))


def retry_without_effect(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a call that is not idempotent; repeat it only while its error reports that it had no effect.

    Raises:
        ServiceBusConnectionError: The broker could not be reached for half a minute, or the call may have taken effect.
        ServiceBusServerBusyError: The broker was busy for half a minute, or the call may have taken effect.
        Exception: Any other error of the call.
    """
    return _retry_while(lambda error: error.effect in (None, "none"), lambda: call(*args, **options))


def _retry_while(may_retry: Callable[[ServiceBusError], bool], call: Callable[[], T]) -> T:
    deadline = time.monotonic() + _RETRY_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return call()
        except (ServiceBusConnectionError, ServiceBusCommunicationError, ServiceBusServerBusyError) as error:
            if time.monotonic() + pause > deadline or not may_retry(error):
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
