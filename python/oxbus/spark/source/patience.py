# SPDX-License-Identifier: Apache-2.0
"""Calls that are made again while the broker is away, for callers that may ask the same twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from oxbus.exceptions import ServiceBusCommunicationError, ServiceBusConnectionError, ServiceBusServerBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE_SECONDS = 30.0
"""How long a broker may take to start again."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


def patiently(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a call, and again while the broker cannot be reached or is busy.

    Raises:
        ServiceBusConnectionError: It could not be reached for half a minute.
        ServiceBusServerBusyError: It was busy for half a minute.
        What the call raises otherwise.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return call(*args, **options)
        except (ServiceBusConnectionError, ServiceBusCommunicationError, ServiceBusServerBusyError):
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
