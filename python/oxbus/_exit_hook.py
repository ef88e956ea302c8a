# SPDX-License-Identifier: Apache-2.0
"""Calls that end our waits when the interpreter exits.

At exit Python first runs the hooks registered with `threading`, the last one first, and then joins every thread
that is no daemon. A thread that waits for a message would never be joined, so our hook has to run before.
Thread pools join their workers in such a hook of their own, registered when `concurrent.futures.thread` is first
imported: `run_before_pools_join` imports that module itself, so that our hook is the later one and runs first.
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
    """Call `callback` at exit before thread pools wait for their workers; a second request is ignored."""
    if callback in _before_pools:
        return
    import concurrent.futures.thread  # noqa: F401, PLC0415 (costs start-up time, so not before it is needed)

    _before_pools.add(callback)
    try:
        run_at_exit(callback)
    except RuntimeError:
        # The interpreter is exiting already: there is nothing left to run before.
        callback()
