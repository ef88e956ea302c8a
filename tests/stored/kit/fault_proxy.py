# SPDX-License-Identifier: Apache-2.0
"""A proxy between one server and its store, which fails single requests, or all of them for a while."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from stored_server import LIVENESS_SECONDS, LOOPBACK

if TYPE_CHECKING:
    import random
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Coroutine

    from store_requests import StoreAnswer, StoreRequest, Wire

T = TypeVar("T")

LARGEST_LINE: Final = 1 << 20
LONGEST_LATE_SECONDS: Final = 9.0
LONGEST_SLOW_SECONDS: Final = 0.15


class Fault(StrEnum):
    """What happens to a request."""

    ANSWER_DROPPED = "answer dropped"
    """The store does it; then the connection ends."""

    ANSWER_HELD = "answer held"
    """The store does it; no answer comes until the client has lost its patience."""

    LATE = "done late"
    """The connection ends; the store does it seconds later."""

    REFUSED = "refused"
    """The connection ends, and the store sees nothing. As a condition: new connections end, too."""

    BUSY = "busy"
    """The answer says that the store is busy; the store sees nothing."""

    HELD = "held"
    """No answer comes; the store sees nothing."""

    SLOW = "slow"
    """It takes longer."""


@dataclass
class Armed:
    """A fault of the next request that stores an object of a kind."""

    kind: str
    fault: Fault
    fired: threading.Event = field(default_factory=threading.Event)


class ProxyThread:
    """The thread that all proxies of a run share; a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIVENESS_SECONDS)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class FaultProxy:
    """A proxy to the store at a port.

    Attributes:
        port: Where it listens.
        condition: What happens to every request, if anything.
        fired: How often each fault of a single request happened, by kind and fault.
    """

    def __init__(self, thread: ProxyThread, wire: Wire, store_port: int, chance: random.Random) -> None:
        self._thread = thread
        self._wire = wire
        self._store_port = store_port
        self._chance = chance
        self._armed: list[Armed] = []
        self._clients: set[StreamWriter] = set()
        # The event loop alone does not keep a task whose client has left.
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self.condition: Fault | None = None
        self.fired: Counter[tuple[str, Fault]] = Counter()
        self._server = thread.do(asyncio.start_server(self._serve, LOOPBACK, 0, limit=LARGEST_LINE))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def arm(self, kind: str, fault: Fault) -> Armed:
        """Let the next request that stores an object of a kind fail."""
        armed = Armed(kind, fault)
        self._armed.append(armed)
        return armed

    def is_armed(self, kind: str) -> bool:
        """Return whether a request for this kind of object will fail."""
        return any(armed.kind == kind for armed in self._armed)

    def disarm(self) -> None:
        """Take back what has not happened."""
        self._armed = []

    def set(self, condition: Fault | None) -> None:
        """Let every request fail from now on, or none. A store that refuses ends all connections."""
        self.condition = condition
        if condition == Fault.REFUSED:
            self._thread.do(self._cut_all())

    def close(self) -> None:
        """Accept no more connections."""
        self._thread.do(self._close())

    async def _close(self) -> None:
        self._server.close()
        await self._cut_all()

    async def _cut_all(self) -> None:
        for client in self._clients:
            client.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._clients.add(writer)
        self._tasks.add(asyncio.current_task())
        connection = _Connection(reader, writer, self._wire, self._store_port, self._chance)
        try:
            while self.condition != Fault.REFUSED:
                request = await self._wire.request(reader)
                if not await connection.serve(request, self._fault_of(request)):
                    break
        except (EOFError, OSError, asyncio.CancelledError):
            pass  # one side left, or the run ends
        finally:
            self._clients.discard(writer)
            self._tasks.discard(asyncio.current_task())
            connection.abort()

    def _fault_of(self, request: StoreRequest) -> Fault | None:
        armed = next((armed for armed in self._armed if armed.kind == request.kind), None)
        if armed is None:
            return self.condition
        self._armed.remove(armed)
        self.fired[armed.kind, armed.fault] += 1
        armed.fired.set()
        return armed.fault


class _Connection:
    """One connection of the server, and the one to the store that belongs to it."""

    def __init__(
        self, reader: StreamReader, writer: StreamWriter, wire: Wire, store_port: int, chance: random.Random
    ) -> None:
        self._reader, self._writer = reader, writer
        self._wire, self._store_port, self._chance = wire, store_port, chance
        self._store: tuple[StreamReader, StreamWriter] | None = None

    def abort(self) -> None:
        """End both connections."""
        self._writer.transport.abort()
        if self._store is not None:
            self._store[1].transport.abort()

    async def serve(self, request: StoreRequest, fault: Fault | None) -> bool:
        """Serve one request. False if the connection ends with it."""
        if fault == Fault.REFUSED:
            return False
        if fault == Fault.HELD:
            await self._until_it_leaves()
            return False
        if fault == Fault.BUSY:
            self._writer.write(self._wire.busy)
            await self._writer.drain()
            return True
        if fault == Fault.LATE:
            self._writer.transport.abort()
            await asyncio.sleep(self._chance.uniform(0, LONGEST_LATE_SECONDS))
        if fault == Fault.SLOW:
            await asyncio.sleep(self._chance.uniform(0, LONGEST_SLOW_SECONDS))
        answer = await self._ask(request)
        if fault == Fault.ANSWER_HELD:
            await self._until_it_leaves()
        if fault in {Fault.ANSWER_HELD, Fault.ANSWER_DROPPED, Fault.LATE}:
            return False
        self._writer.write(answer.content)
        await self._writer.drain()
        if answer.is_last:
            self._writer.close()
            await self._writer.wait_closed()
        return not answer.is_last

    async def _ask(self, request: StoreRequest) -> StoreAnswer:
        if self._store is None:
            self._store = await asyncio.open_connection(LOOPBACK, self._store_port, limit=LARGEST_LINE)
        reader, writer = self._store
        writer.write(request.content)
        await writer.drain()
        return await self._wire.answer(reader, request)

    async def _until_it_leaves(self) -> None:
        with contextlib.suppress(OSError):
            while await self._reader.read(1 << 16):
                pass
