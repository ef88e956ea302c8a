# SPDX-License-Identifier: Apache-2.0
"""Calls that are made again while the broker is away: those that may be made twice, and those that did nothing."""

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
"""How long a broker may take to start again."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


def retry_idempotent(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a call that may be made twice, and again while the broker cannot be reached or is busy.

    Raises:
        ServiceBusConnectionError: It could not be reached for half a minute.
        ServiceBusServerBusyError: It was busy for half a minute.
        What the call raises otherwise.
    """
    return _retry_while(lambda _error: True, lambda: call(*args, **options))


def retry_without_effect(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a call that does its work each time, and again only while its error says that it did nothing.

    Raises:
        ServiceBusConnectionError: It could not be reached for half a minute, or the call may have done its work.
        ServiceBusServerBusyError: It was busy for half a minute, or the call may have done its work.
        What the call raises otherwise.
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
