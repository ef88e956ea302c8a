# SPDX-License-Identifier: Apache-2.0
"""The contenders of the sweeps: each sends parts and takes messages the quickest way it has, from any thread.

A part is what one call sends; making it ready is not timed, making message objects and reading bodies is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import ceiling
import pyarrow as pa
from bodies import read_column, read_message, read_taken, read_tuple
from oxbus import ServiceBusMessage
from peers.peeklock import Message, PeekLockQueue
from targets import ARROW, CEILING, OURS, PEEKLOCK

from cases.bus import QUEUE, Bus, open_bus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WAIT_SECONDS = 0.05


class Ends(Protocol):
    """A sender and a receiver for one thread."""

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        """Arguments of `send`, one for each call."""

    def send(self, part: Any) -> None:
        """Send a part."""

    def take(self, count: int, size: int, body_bytes: int) -> None:
        """Receive, read and complete `count` messages of `body_bytes` bytes, up to `size` at once."""


@dataclass(frozen=True)
class Line:
    """A contender."""

    name: str
    open: Callable[[], Any]
    ends: Callable[[Any], Ends]
    remaining: Callable[[Any], int]
    close: Callable[[Any], None] = lambda _queue: None


def slices(bodies: Sequence[bytes], size: int) -> list[Any]:
    """Bodies one by one, or lists of `size`."""
    return list(bodies) if size == 1 else [list(bodies[at : at + size]) for at in range(0, len(bodies), size)]


class _Lists:
    """Ours, messages as Python objects."""

    def __init__(self, bus: Bus) -> None:
        self._send = bus.client.get_queue_sender(QUEUE).send_messages
        receiver = bus.client.get_queue_receiver(QUEUE)
        self._receive = receiver.receive_messages
        self._complete, self._complete_many = receiver.complete_message, receiver.complete_messages

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        return slices(bodies, size)

    def send(self, part: Any) -> None:
        if type(part) is bytes:
            self._send(ServiceBusMessage(part))
        else:
            self._send([ServiceBusMessage(body) for body in part])

    def take(self, count: int, size: int, body_bytes: int) -> None:
        receive, remaining = self._receive, count
        if size == 1:
            complete = self._complete
            while remaining:
                for message in receive(max_wait_time=WAIT_SECONDS):
                    read_message(message, body_bytes)
                    complete(message)
                    remaining -= 1
            return
        while remaining:
            messages = receive(min(size, remaining), max_wait_time=WAIT_SECONDS)
            for message in messages:
                read_message(message, body_bytes)
            self._complete_many(messages)
            remaining -= len(messages)


class _Columns:
    """Ours, Arrow in and out."""

    def __init__(self, bus: Bus) -> None:
        self._send = bus.client.get_queue_sender(QUEUE).send_arrow
        receiver = bus.client.get_queue_receiver(QUEUE)
        self._receive, self._settle = receiver.receive_arrow, receiver.settle_arrow

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        columns = [pa.array(bodies[at : at + size], pa.binary()) for at in range(0, len(bodies), size)]
        return [pa.record_batch({"body": column}) for column in columns]

    def send(self, part: Any) -> None:
        self._send(part)

    def take(self, count: int, size: int, body_bytes: int) -> None:
        remaining = count
        while remaining:
            table = pa.table(self._receive(min(size, remaining), max_wait_time=WAIT_SECONDS))
            if table.num_rows:
                read_column(table["body"], body_bytes)
                self._settle(table, "complete")
                remaining -= table.num_rows


class _Ceiling:
    """The least work in C, messages as Python objects."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        return slices(bodies, size)

    def send(self, part: Any) -> None:
        if type(part) is bytes:
            self._queue.send(part)
        else:
            self._queue.send_many(part)

    def take(self, count: int, size: int, body_bytes: int) -> None:
        queue, remaining = self._queue, count
        while remaining:
            messages = queue.receive(min(size, remaining))
            for message in messages:
                read_tuple(message, body_bytes)
            if not messages:
                time.sleep(0)  # it cannot wait
            elif size == 1:
                queue.complete(messages[0])
            else:
                queue.complete_many(messages)
            remaining -= len(messages)


class _CeilingColumns:
    """The least work in C, columns in and out."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        return [pa.array(bodies[at : at + size], pa.binary()) for at in range(0, len(bodies), size)]

    def send(self, part: Any) -> None:
        _, offsets, data = part.buffers()
        self._queue.send_columns(offsets.address, data.address, len(part))

    def take(self, count: int, size: int, body_bytes: int) -> None:
        queue, remaining = self._queue, count
        while remaining:
            rows, numbers, tokens, offsets, data = queue.receive_columns(min(size, remaining))
            if not rows:
                time.sleep(0)
                continue
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            read_column(pa.Array.from_buffers(pa.binary(), rows, buffers), body_bytes)
            queue.complete_columns(numbers, tokens)
            remaining -= rows


class _PeekLock:
    """The hand-written queue."""

    def __init__(self, queue: PeekLockQueue) -> None:
        self._queue = queue

    def parts(self, bodies: Sequence[bytes], size: int) -> list[Any]:
        return slices(bodies, size)

    def send(self, part: Any) -> None:
        if type(part) is bytes:
            self._queue.send(Message(part))
        else:
            self._queue.send_many([Message(body) for body in part])

    def take(self, count: int, size: int, body_bytes: int) -> None:
        queue, remaining = self._queue, count
        while remaining:
            taken = queue.receive(min(size, remaining), WAIT_SECONDS)
            for one in taken:
                read_taken(one, body_bytes)
            if size == 1 and taken:
                queue.complete(taken[0][0])
            else:
                queue.complete_many([token for token, _ in taken])
            remaining -= len(taken)


def lists() -> list[Line]:
    """Those that hand out Python objects."""
    found = [Line(OURS, open_bus, _Lists, Bus.remaining, Bus.close), Line(PEEKLOCK, PeekLockQueue, _PeekLock, len)]
    compiled = ceiling.load()
    return [*found, Line(CEILING, compiled.Queue, _Ceiling, len)] if compiled else found


def columns() -> list[Line]:
    """Those that hand out Arrow columns."""
    ours = Line(ARROW, open_bus, _Columns, Bus.remaining, Bus.close)
    compiled = ceiling.load()
    return [ours, Line(f"{CEILING}, columns", compiled.Queue, _CeilingColumns, len)] if compiled else [ours]
