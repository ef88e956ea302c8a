# SPDX-License-Identifier: Apache-2.0
"""Resident bytes per stored message, and rates with a large backlog.

Each figure comes from a fresh process, so that one contender's freed memory is never another's.
A process fills a queue with distinct 100-byte bodies and reads its resident size before and after.

    python bench/memory.py                 all contenders, one million messages
    python bench/memory.py --messages N    another number
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BODY_BYTES = 100
CHUNK = 10_000


def resident_bytes() -> int:
    """The process's resident size, free heap given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def body_of(number: int) -> bytes:
    """A body like no other."""
    return number.to_bytes(8, "big") + b"." * (BODY_BYTES - 8)


def _fill_in_batches(messages: int) -> Any:
    from cases.bus import open_bus  # noqa: PLC0415 -- one contender's packages per process
    from oxbus import ServiceBusMessage  # noqa: PLC0415

    bus = open_bus()
    for start in range(0, messages, 100):
        bus.sender.send_messages([ServiceBusMessage(body_of(number)) for number in range(start, start + 100)])
    return bus


def _fill_by_arrow(messages: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    from cases.bus import open_bus  # noqa: PLC0415

    bus = open_bus()
    for start in range(0, messages, CHUNK):
        bodies = [body_of(number) for number in range(start, start + CHUNK)]
        bus.sender.send_arrow(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
    pa.default_memory_pool().release_unused()
    return bus


def _fill_peeklock(messages: int) -> Any:
    from peers.peeklock import Message, PeekLockQueue  # noqa: PLC0415

    peer = PeekLockQueue()
    for number in range(messages):
        peer.send(Message(body_of(number)))
    return peer


def _fill_deque(messages: int) -> Any:
    return deque(body_of(number) for number in range(messages))


CONTENDERS: dict[str, Callable[[int], Any]] = {
    "oxbus, lists of 100": _fill_in_batches,
    "oxbus, Arrow": _fill_by_arrow,
    "PeekLock in Python": _fill_peeklock,
    "collections.deque of bytes": _fill_deque,
}


def _one(contender: str, messages: int) -> float:
    """Bytes per message, in this process."""
    fill = CONTENDERS[contender]
    keep_warm = fill(CHUNK)  # imports, thread pools and first segments are not the messages' bytes
    before = resident_bytes()
    filled = fill(messages)
    after = resident_bytes()
    del keep_warm, filled
    return (after - before) / messages


def bytes_per_message(contender: str, messages: int = 1_000_000) -> float:
    """Bytes per message, in a process of its own."""
    command = [sys.executable, __file__, "--one", contender, "--messages", str(messages)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(answer.stdout))


def backlog_rates(backlog: int, sample: int = 50_000) -> dict[str, float]:
    """Messages per second of each operation while about `backlog` messages are waiting."""
    import pyarrow as pa  # noqa: PLC0415
    from cases.bus import open_bus  # noqa: PLC0415
    from cases.case import expect  # noqa: PLC0415
    from oxbus import ServiceBusMessage  # noqa: PLC0415

    bus = open_bus()
    for start in range(0, backlog, CHUNK):
        bodies = [body_of(number) for number in range(start, min(start + CHUNK, backlog))]
        bus.sender.send_arrow(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
    bodies = [body_of(number) for number in range(sample)]
    rates = {}

    # The backlog stays about as large as it was: as many are sent as are taken, a little at a time.
    spent = {"send single": 0.0, "receive + complete single": 0.0, "send by 100": 0.0, "receive + complete by 100": 0.0}
    counts = dict.fromkeys(spent, 0)
    step = 1000
    for start in range(0, sample, step):
        part = bodies[start : start + step]
        began = time.perf_counter()
        for body in part:
            bus.sender.send_messages(ServiceBusMessage(body))
        spent["send single"] += time.perf_counter() - began
        counts["send single"] += step

        began = time.perf_counter()
        for _ in range(step):
            (message,) = bus.receiver.receive_messages(max_wait_time=0)
            bus.receiver.complete_message(message)
        spent["receive + complete single"] += time.perf_counter() - began
        counts["receive + complete single"] += step

        began = time.perf_counter()
        for first in range(0, step, 100):
            bus.sender.send_messages([ServiceBusMessage(body) for body in part[first : first + 100]])
        spent["send by 100"] += time.perf_counter() - began
        counts["send by 100"] += step

        taken = 0
        began = time.perf_counter()
        while taken < step:
            messages = bus.receiver.receive_messages(min(100, step - taken), max_wait_time=0)
            bus.receiver.complete_messages(messages)
            taken += len(messages)
        spent["receive + complete by 100"] += time.perf_counter() - began
        counts["receive + complete by 100"] += step
    expect("messages left", bus.left(), backlog)
    bus.close()
    for operation, seconds in spent.items():
        rates[operation] = counts[operation] / seconds
    return rates


def main() -> None:
    """Print bytes per message of every contender."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many to store")
    parser.add_argument("--one", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_one(options.one, options.messages)))
        return
    for contender in CONTENDERS:
        size = bytes_per_message(contender, options.messages)
        print(f"{contender:28} {size:7.1f} B per message, {size - BODY_BYTES:6.1f} B beyond the body")


if __name__ == "__main__":
    main()
