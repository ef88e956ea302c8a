# SPDX-License-Identifier: Apache-2.0
"""How fast a directory opens after its process was killed, and how much disk a queue takes after much churn.

The directory is read from the page cache: figures are of the program, not of the disk, whose own rate stands beside them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import oxbus
from cases.case import expect
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

QUEUE = "bench"
CHUNK = 5_000
LIST = 100
BODY_BYTES = 100
PARTITIONS = 16
SEGMENT_BYTES_MAX = 16 << 20

Figures = dict[str, float]


def reopen(directory: Path, messages: int, body_bytes: int = BODY_BYTES) -> Figures:
    """Let a process fill a queue and be killed; open what it left.

    Returns:
        `seconds` of opening, `journal_bytes` that were there to read, `bytes_per_s`, `plain_read_bytes_per_s` of the same
        files read one after the other, `live_messages`.
    """
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / "namespace"
        command = [sys.executable, __file__, "fill", str(path), str(messages), str(body_bytes)]
        filler = subprocess.run(command, check=False)
        expect("the filler was killed", filler.returncode, -9)
        journal_bytes, read_seconds = _read(path)  # and now in the page cache, where there is one
        _, read_seconds = _read(path)
        began = time.perf_counter()
        namespace = oxbus.Namespace(str(path))
        seconds = time.perf_counter() - began
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(QUEUE)
        expect("messages after the kill", counts.total_message_count, messages)
        namespace.close()
    return {
        "seconds": seconds,
        "journal_bytes": journal_bytes,
        "bytes_per_s": journal_bytes / seconds,
        "plain_read_bytes_per_s": journal_bytes / read_seconds,
        "live_messages": messages,
    }


def churn(directory: Path, live: int, times: int = 20, body_bytes: int = 1024) -> Figures:
    """Keep `live` messages in a queue while `times` as many go through it; return what the directory takes then."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / "namespace"
        with oxbus.Namespace(str(path), durability="os") as namespace:
            ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
            client = ServiceBusClient(namespace)
            sender, receiver = client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE)
            _send(sender, live, body_bytes)
            for _ in range(times * live // LIST):
                _send(sender, LIST, body_bytes)
                left = LIST
                while left:
                    messages = receiver.receive_messages(left, max_wait_time=5)
                    expect("something to receive while messages are left", bool(messages), wanted=True)
                    receiver.complete_messages(messages)
                    left -= len(messages)
            used = _disk_bytes(path)
            client.close()
    live_bytes = live * body_bytes
    # Twice what lives, and for each shard three segments and two checkpoints of its part.
    bound = 2 * live_bytes + PARTITIONS * 3 * SEGMENT_BYTES_MAX + 2 * live_bytes
    return {"disk_bytes": used, "live_bytes": live_bytes, "bound_bytes": bound}


def _disk_bytes(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def _read(path: Path) -> tuple[int, float]:
    began = time.perf_counter()
    total = sum(len(file.read_bytes()) for file in sorted(path.rglob("*.journal")) + sorted(path.rglob("*.snapshot")))
    return total, time.perf_counter() - began


def _send(sender: oxbus.ServiceBusSender, count: int, body_bytes: int) -> None:
    for start in range(0, count, LIST):
        size = min(LIST, count - start)
        sender.send_messages([ServiceBusMessage(os.urandom(8) * (body_bytes // 8)) for _ in range(size)])


def _fill(path: str, messages: int, body_bytes: int) -> None:
    """Fill a queue and die."""
    import pyarrow as pa  # noqa: PLC0415 -- only the filler needs it

    namespace = oxbus.Namespace(path, durability="os")
    ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
    sender = ServiceBusClient(namespace).get_queue_sender(QUEUE)
    for start in range(0, messages, CHUNK):
        count = min(CHUNK, messages - start)
        bodies = [number.to_bytes(8, "big") * (body_bytes // 8) for number in range(start, start + count)]
        sender.send_arrow(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
    os.kill(os.getpid(), 9)


def main() -> None:
    """Fill, when called by `reopen`; otherwise measure and print."""
    if sys.argv[1:2] == ["fill"]:
        _fill(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    directory = Path(__file__).parents[1] / ".cache" / "data"
    directory.mkdir(parents=True, exist_ok=True)
    for figures in (reopen(directory, 200_000), reopen(directory, 5_000_000), churn(directory, 20_000)):
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
