# SPDX-License-Identifier: Apache-2.0
"""Sends, receives, reads and completions by 100, 1,000 and 4,000, each timed by itself.

All messages are sent; then each list is received, its bodies are read, and it is completed before the next.
Making and freeing message objects is part of a send; freeing those received is part of a completion.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import ceiling
from bodies import bodies_of, read_message, read_tuple
from cases.bus import open_bus
from cases.case import expect
from oxbus import ServiceBusMessage
from targets import CEILING, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MESSAGES = 16_000
OPERATIONS = ("send", "receive", "read", "complete")
BODY_BYTES = {"100B": 100, "1KiB": 1024}


def _parts(bodies: Sequence[bytes], length: int) -> list[list[bytes]]:
    return [list(bodies[at : at + length]) for at in range(0, len(bodies), length)]


def _ours(bodies: Sequence[bytes], length: int) -> dict[str, float]:
    bus = open_bus()
    send, receive = bus.sender.send_messages, bus.receiver.receive_messages
    complete, clock, body_bytes = bus.receiver.complete_messages, time.perf_counter, len(bodies[0])
    parts = _parts(bodies, length)
    sending = receiving = reading = completing = 0.0
    for part in parts:
        began = clock()
        send([ServiceBusMessage(body) for body in part])
        sending += clock() - began
    left = len(bodies)
    while left:
        began = clock()
        messages = receive(min(length, left), max_wait_time=0)
        received = clock()
        for message in messages:
            read_message(message, body_bytes)
        read = clock()
        left -= len(messages)
        complete(messages)
        del message, messages
        completing += clock() - read
        receiving += received - began
        reading += read - received
    expect("messages left", bus.remaining(), 0)
    bus.close()
    return dict(zip(OPERATIONS, (sending, receiving, reading, completing), strict=True))


def _ceiling(bodies: Sequence[bytes], length: int) -> dict[str, float]:
    queue = ceiling.queue()
    clock, body_bytes = time.perf_counter, len(bodies[0])
    parts = _parts(bodies, length)
    sending = receiving = reading = completing = 0.0
    for part in parts:
        began = clock()
        queue.send_many(part)
        sending += clock() - began
    left = len(bodies)
    while left:
        began = clock()
        messages = queue.receive(min(length, left))
        received = clock()
        for message in messages:
            read_tuple(message, body_bytes)
        read = clock()
        left -= len(messages)
        queue.complete_many(messages)
        del message, messages
        completing += clock() - read
        receiving += received - began
        reading += read - received
    expect("messages left", len(queue), 0)
    return dict(zip(OPERATIONS, (sending, receiving, reading, completing), strict=True))


_CONTENDERS: dict[str, Callable[[Sequence[bytes], int], dict[str, float]]] = {OURS: _ours, CEILING: _ceiling}


def contenders() -> list[str]:
    """Those that take part; the ceiling needs a compiler."""
    return [OURS, CEILING] if ceiling.load() is not None else [OURS]


def rates(contender: str, payload: str, length: int, messages: int) -> dict[str, float]:
    """Messages per second of each operation, in lists of `length`."""
    seconds = _CONTENDERS[contender](bodies_of(BODY_BYTES[payload], messages), length)
    return {operation: messages / spent for operation, spent in seconds.items()}
