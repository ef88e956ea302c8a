# SPDX-License-Identifier: Apache-2.0
"""Waiting for messages without threads: one socket per event loop, which turns readable when somebody is rung."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oxbus._oxbus import _WakeUps

if TYPE_CHECKING:
    from oxbus import ServiceBusReceiver
    from oxbus._oxbus import _WakeTicket


class Place:
    """A place among those who wait at a queue, until it is left."""

    def __init__(self, ticket: _WakeTicket, rung: asyncio.Future[None]) -> None:
        """Make the place of a ticket."""
        self._ticket = ticket
        self._rung = rung

    async def wait(self, seconds: float | None) -> None:
        """Return when rung, or when the time is over."""
        await asyncio.wait((self._rung,), timeout=seconds)

    def take_ring(self) -> None:
        """Leave the place, in order to look for messages."""
        self._ticket.take_ring()
        self._rung.cancel()

    def leave(self) -> None:
        """Leave the place without a look: a ring goes to the next one who waits."""
        self._ticket.leave()
        self._rung.cancel()


class WakeUps:
    """Who waits in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop watch a socket of its own."""
        self._native = _WakeUps()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self._native.fileno(), self._wake)

    def register(self, receiver: ServiceBusReceiver) -> Place:
        """Join those who wait at a receiver's queue. Look for messages before waiting."""
        number = next(self._numbers)
        rung = asyncio.get_running_loop().create_future()
        ticket = receiver._wait_at(self._native, number)
        self._waiting[number] = rung
        rung.add_done_callback(lambda _: self._waiting.pop(number, None))
        return Place(ticket, rung)

    def _wake(self) -> None:
        for number in self._native.drain():
            rung = self._waiting.get(number)
            if rung is not None and not rung.done():
                rung.set_result(None)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, WakeUps] = WeakKeyDictionary()


def wake_ups() -> WakeUps:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = WakeUps(loop)
    return found
