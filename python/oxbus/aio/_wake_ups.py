# SPDX-License-Identifier: Apache-2.0
"""Waiting for messages without threads: one socket per event loop, which becomes readable when a waiter is notified."""

from __future__ import annotations

import asyncio
import itertools
import math
import select
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from oxbus._oxbus import _WakeUps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oxbus._oxbus import _PendingCall, _Waiter

Found = TypeVar("Found")

_LOOK_AGAIN_SECONDS: Final = 1.0
"""How long the thread of a loop that watches no sockets outlives that loop."""


class WakeUps:
    """The waits of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create the socket and register it with the loop."""
        self._native = _WakeUps()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        try:
            loop.add_reader(self._native.fileno(), self._wake)
        except NotImplementedError:  # the usual loop of Windows watches no sockets
            watched = (self._native, loop, weakref.WeakMethod(self._wake))
            threading.Thread(target=_watch, args=watched, name="oxbus-wake-ups", daemon=True).start()

    async def wait_until_found(
        self, step: Callable[[_Waiter], Awaitable[Found | float]], seconds: float | None
    ) -> Found:
        """Repeat `step` until it returns a result instead of the seconds to sleep; at most for `seconds`.

        A cancelled wait leaves the wait queue; a notification that it did not use goes to the next waiter.
        """
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        waiter = self._native.waiter(number, seconds)
        try:
            while True:
                # Created before the step: another thread may notify before the step returns.
                notified = self._waiting[number] = loop.create_future()
                result = await step(waiter)
                if not isinstance(result, float):
                    return result
                timer = None if math.isinf(result) else loop.call_later(result, _end, notified)
                try:
                    await notified
                finally:
                    if timer is not None:
                        timer.cancel()
        finally:
            waiter.cancel()
            del self._waiting[number]

    async def result_of(self, call: _PendingCall) -> Any:
        """Wait until a call has ended, and return its result."""

        async def step(waiter: _Waiter) -> float | tuple[Any]:
            return call.step(waiter)

        (result,) = await self.wait_until_found(step, None)
        return result

    def _wake(self) -> None:
        for number in self._native.drain():
            notified = self._waiting.get(number)
            if notified is not None:
                _end(notified)


def _watch(native: _WakeUps, loop: asyncio.AbstractEventLoop, wake: weakref.WeakMethod[Callable[[], None]]) -> None:
    """Call `wake` in the loop whenever the socket is readable, until the loop is closed or its waits are gone."""
    drained = threading.Event()

    def wake_in_loop() -> None:
        call = wake()
        if call is not None:
            call()
        drained.set()

    while wake() is not None and not loop.is_closed():
        readable, _, _ = select.select([native.fileno()], [], [], _LOOK_AGAIN_SECONDS)
        if readable:
            drained.clear()
            try:
                loop.call_soon_threadsafe(wake_in_loop)
            except RuntimeError:  # it was closed meanwhile
                return
            drained.wait(_LOOK_AGAIN_SECONDS)


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WakeUps] = WeakKeyDictionary()


def wake_ups() -> WakeUps:
    """Return the waits of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = WakeUps(loop)
    return found
