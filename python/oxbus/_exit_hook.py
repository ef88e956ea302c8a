# SPDX-License-Identifier: Apache-2.0
"""Hooks that end waiting calls when the interpreter exits.

At exit Python first runs the hooks registered with `threading`, in reverse order, and then joins every non-daemon
thread. A thread that waits for a message would never end, so our hook has to run before.
Thread pools also join their workers in a hook, registered when `concurrent.futures.thread` is first imported.
`run_before_pools_join` therefore imports that module first, so that our hook is registered later and runs earlier.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_before_pools: set[Callable[[], None]] = set()


def run_at_exit(callback: Callable[[], None]) -> None:
    """Call `callback` when the interpreter starts to exit, before threads are joined."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(callback)


def run_before_pools_join(callback: Callable[[], None]) -> None:
    """Call `callback` at exit before thread pools join their workers; registering it twice has no effect."""
    if callback in _before_pools:
        return
    import concurrent.futures.thread  # noqa: F401, PLC0415 (costs start-up time)

    _before_pools.add(callback)
    try:
        run_at_exit(callback)
    except RuntimeError:
        # The interpreter is exiting already.
        callback()
