# SPDX-License-Identifier: Apache-2.0
"""Rates while a queue holds ten thousand to ten million messages; each measurement in a fresh process.

The backlog stays about as large as it was: as many are sent as are taken and read, a thousand at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bodies import END, read_column, read_message, read_taken, read_tuple
from targets import CEILING, OURS, PEEKLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEERS_BACKLOG_MAX = 1_000_000
"""Filling a peer one by one takes longer than ours by columns."""
BYTES_PER_MESSAGE = 250
"""Share of the free memory that a waiting message may take; a larger backlog is left out."""
SAMPLE = 50_000
STEP = 1_000
BODY_BYTES = 100
CHUNK = 100_000
QUEUE_MEGABYTES = 81_920


@dataclass
class Watch:
    """Seconds of each step of an operation."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def __call__(self, operation: str) -> Iterator[None]:
        """Count `STEP` messages of an operation."""
        began = time.perf_counter()
        yield
        self.seconds.setdefault(operation, []).append(time.perf_counter() - began)

    def rates(self) -> dict[str, float]:
        """Messages per second in the median step: one that another process interrupts takes many times as long."""
        return {operation: STEP / statistics.median(spent) for operation, spent in self.seconds.items()}


def fits(backlog: int) -> bool:
    """Whether the messages of a backlog take less than half of the free memory."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    return backlog * BYTES_PER_MESSAGE < free // 2


def rates(contender: str, backlog: int, sample: int) -> dict[str, float]:
    """Messages per second of each operation while about `backlog` wait, `sample` of each, in a separate process."""
    command = [sys.executable, __file__, "--one", contender, "--backlog", str(backlog), "--sample", str(sample)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _body(number: int) -> bytes:
    return number.to_bytes(BODY_BYTES - 1, "big") + END


def _ours(backlog: int, sample: int) -> dict[str, float]:
    import numpy as np  # noqa: PLC0415 -- one contender's packages per process
    import pyarrow as pa  # noqa: PLC0415
    from cases.bus import open_bus  # noqa: PLC0415
    from cases.case import expect  # noqa: PLC0415
    from oxbus import ServiceBusMessage  # noqa: PLC0415

    bus = open_bus(max_size_in_megabytes=QUEUE_MEGABYTES)
    for start in range(0, backlog, CHUNK):
        rows = min(CHUNK, backlog - start)
        block = np.zeros((rows, BODY_BYTES), np.uint8)
        block[:, -1] = END[0]
        block[:, :8] = np.arange(start, start + rows, dtype=">u8").view(np.uint8).reshape(rows, 8)
        offsets = np.arange(0, (rows + 1) * BODY_BYTES, BODY_BYTES, dtype=np.int32)
        column = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(block)])
        bus.sender.send_arrow(pa.record_batch({"body": column}))
    send, receive = bus.sender.send_messages, bus.receiver.receive_messages
    complete, complete_many = bus.receiver.complete_message, bus.receiver.complete_messages
    body = _body(0)
    columns = pa.record_batch({"body": pa.array([body] * STEP, pa.binary())})
    watch = Watch()
    for _ in range(sample // STEP):
        with watch("send single"):
            for _ in range(STEP):
                send(ServiceBusMessage(body))
        with watch("receive + complete single"):
            for _ in range(STEP):
                (message,) = receive(max_wait_time=0)
                read_message(message, BODY_BYTES)
                complete(message)
        with watch("send by 100"):
            for _ in range(STEP // 100):
                send([ServiceBusMessage(body) for _ in range(100)])
        with watch("receive + complete by 100"):
            left = STEP
            while left:
                messages = receive(min(100, left), max_wait_time=0)
                for message in messages:
                    read_message(message, BODY_BYTES)
                complete_many(messages)
                left -= len(messages)
        with watch("Arrow in"):
            bus.sender.send_arrow(columns)
        with watch("Arrow out + complete"):
            left = STEP
            while left:
                table = pa.table(bus.receiver.receive_arrow(left, max_wait_time=0))
                read_column(table["body"], BODY_BYTES)
                bus.receiver.settle_arrow(table, "complete")
                left -= table.num_rows
    expect("messages left", bus.remaining(), backlog)
    bus.close()
    return watch.rates()


def _peeklock(backlog: int, sample: int) -> dict[str, float]:
    from cases.case import expect  # noqa: PLC0415
    from peers.peeklock import Message, PeekLockQueue  # noqa: PLC0415

    queue = PeekLockQueue()
    for start in range(0, backlog, 100):
        queue.send_many([Message(_body(number)) for number in range(start, start + 100)])
    body = _body(0)
    watch = Watch()
    for _ in range(sample // STEP):
        with watch("send single"):
            for _ in range(STEP):
                queue.send(Message(body))
        with watch("receive + complete single"):
            for _ in range(STEP):
                (one,) = queue.receive()
                read_taken(one, BODY_BYTES)
                queue.complete(one[0])
        with watch("send by 100"):
            for _ in range(STEP // 100):
                queue.send_many([Message(body) for _ in range(100)])
        with watch("receive + complete by 100"):
            for _ in range(STEP // 100):
                taken = queue.receive(100)
                for one in taken:
                    read_taken(one, BODY_BYTES)
                queue.complete_many([token for token, _ in taken])
    expect("messages left", len(queue), backlog)
    return watch.rates()


def _ceiling(backlog: int, sample: int) -> dict[str, float]:
    import ceiling  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    from cases.case import expect  # noqa: PLC0415

    queue = ceiling.queue()
    for start in range(0, backlog, 100):
        queue.send_many([_body(number) for number in range(start, start + 100)])
    bodies = [_body(0)] * 100
    _, offsets, data = pa.array([bodies[0]] * STEP, pa.binary()).buffers()
    watch = Watch()
    for _ in range(sample // STEP):
        with watch("send single"):
            for _ in range(STEP):
                queue.send(bodies[0])
        with watch("receive + complete single"):
            for _ in range(STEP):
                (message,) = queue.receive(1)
                read_tuple(message, BODY_BYTES)
                queue.complete(message)
        with watch("send by 100"):
            for _ in range(STEP // 100):
                queue.send_many(bodies)
        with watch("receive + complete by 100"):
            for _ in range(STEP // 100):
                messages = queue.receive(100)
                for message in messages:
                    read_tuple(message, BODY_BYTES)
                queue.complete_many(messages)
        with watch("Arrow in"):
            queue.send_columns(offsets.address, data.address, STEP)
        with watch("Arrow out + complete"):
            rows, numbers, tokens, ends, bytes_ = queue.receive_columns(STEP)
            column = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(bytes_)])
            read_column(column, BODY_BYTES)
            queue.complete_columns(numbers, tokens)
    expect("messages left", len(queue), backlog)
    return watch.rates()


CONTENDERS: dict[str, Callable[[int, int], dict[str, float]]] = {OURS: _ours, PEEKLOCK: _peeklock, CEILING: _ceiling}


def main() -> None:
    """Print the rates of one contender as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", choices=list(CONTENDERS), required=True)
    parser.add_argument("--backlog", type=int, required=True)
    parser.add_argument("--sample", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(CONTENDERS[options.one](options.backlog, options.sample)))


if __name__ == "__main__":
    main()
