# SPDX-License-Identifier: Apache-2.0
"""The time from a send in one thread until a receiver that waits in another has the body, for oxbus and its peers.

The sender waits until the receiver has waited for a moment, so that each sample includes a real wake-up.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from bodies import END, read_message
from cases.bus import open_bus
from cases.case import expect
from oxbus import ServiceBusMessage, ServiceBusReceivedMessage
from peers.peeklock import Message, PeekLockQueue
from targets import OURS, PARTITIONED, PEEKLOCK, PLAIN, SIMPLE_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 2000
CALLS = 100_000
PLAIN_CALLS = ("send", "receive", "read", "complete")
PACED_MESSAGES = 20
SETTLE_SECONDS = 0.0005
BODY = b"x" * 99 + END


def _ping(send: Callable[[], object], receive: Callable[[], bytes], samples: int) -> list[float]:
    """Microseconds from before the send until the receiver holds the body."""
    times: list[float] = []
    sent_at = 0.0
    taken = threading.Semaphore(0)

    def wait_for_each() -> None:
        for _ in range(samples):
            body = receive()
            times.append((time.perf_counter() - sent_at) * 1e6)
            expect("the body", body, BODY)
            taken.release()

    thread = threading.Thread(target=wait_for_each)
    thread.start()
    for _ in range(samples):
        time.sleep(SETTLE_SECONDS)
        sent_at = time.perf_counter()
        send()
        taken.acquire()
    thread.join()
    return times


def oxbus_times(samples: int) -> list[float]:
    """Ours; the completion of one message falls into the pause before the next."""
    bus = open_bus()
    held: list[ServiceBusReceivedMessage] = []

    def receive() -> bytes:
        for message in held:
            bus.receiver.complete_message(message)
        held[:] = bus.receiver.receive_messages(max_wait_time=10)
        return read_message(held[0], len(BODY))

    try:
        return _ping(lambda: bus.sender.send_messages(ServiceBusMessage(BODY)), receive, samples)
    finally:
        bus.close()


def peeklock_times(samples: int) -> list[float]:
    """The hand-written queue."""
    peer = PeekLockQueue()
    held: list[tuple[int, Message]] = []

    def receive() -> bytes:
        for token, _ in held:
            peer.complete(token)
        held[:] = peer.receive(timeout=10)
        return held[0][1].body

    return _ping(lambda: peer.send(Message(BODY)), receive, samples)


def simple_queue_times(samples: int) -> list[float]:
    """The floor: no lock, no acknowledgement."""
    simple: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    return _ping(lambda: simple.put(BODY), simple.get, samples)


def plain_calls(samples: int) -> dict[str, list[float]]:
    """Microseconds of each call of an oxbus cycle in one thread, and of reading the body."""
    bus = open_bus()
    send, receive, complete = bus.sender.send_messages, bus.receiver.receive_messages, bus.receiver.complete_message
    found: dict[str, list[float]] = {call: [] for call in PLAIN_CALLS}
    clock = time.perf_counter
    try:
        for _ in range(samples):
            began = clock()
            send(ServiceBusMessage(BODY))
            sent = clock()
            (message,) = receive(max_wait_time=0)
            received = clock()
            read_message(message, len(BODY))
            had_read = clock()
            complete(message)
            ended = clock()
            found["send"].append((sent - began) * 1e6)
            found["receive"].append((received - sent) * 1e6)
            found["read"].append((had_read - received) * 1e6)
            found["complete"].append((ended - had_read) * 1e6)
        expect("messages left", bus.remaining(), 0)
    finally:
        bus.close()
    return found


def paced(messages: int) -> dict[str, list[float]]:
    """Microseconds from a send to a waiting receiver at one message per second, to a plain and a partitioned queue.

    Both wait in the same process; a message goes to one of them each half second.
    """
    found: dict[str, list[float]] = {PLAIN: [], PARTITIONED: []}
    buses = {name: open_bus(partitioned=name == PARTITIONED) for name in found}
    sent_at = dict.fromkeys(found, 0.0)

    def wait_for_each(name: str) -> None:
        receiver = buses[name].receiver
        for _ in range(messages):
            (message,) = receiver.receive_messages(max_wait_time=30)
            read_message(message, len(BODY))
            found[name].append((time.perf_counter() - sent_at[name]) * 1e6)
            receiver.complete_message(message)

    threads = [threading.Thread(target=wait_for_each, args=(name,)) for name in found]
    for thread in threads:
        thread.start()
    due = time.perf_counter()
    for _ in range(messages):
        for name, bus in buses.items():
            due += 0.5
            time.sleep(max(0.0, due - time.perf_counter()))
            sent_at[name] = time.perf_counter()
            bus.sender.send_messages(ServiceBusMessage(BODY))
    for thread in threads:
        thread.join()
    for bus in buses.values():
        expect("messages left", bus.remaining(), 0)
        bus.close()
    return found


CONTENDERS = {OURS: oxbus_times, PEEKLOCK: peeklock_times, SIMPLE_QUEUE: simple_queue_times}
