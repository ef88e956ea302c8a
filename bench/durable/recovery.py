# SPDX-License-Identifier: Apache-2.0
"""How fast a directory opens after its process was killed, and how much disk a queue takes after much churn.

The files are in the page cache when they are read, so the figures are the program's, not the disk's.
"""

from __future__ import annotations

import os
import resource
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
LIST = 100
BODY_BYTES = 100
PARTITIONS = 16
SEGMENT_BYTES_MAX = 16 << 20

Figures = dict[str, float]

FILLER = """
import os, sys
import oxbus, pyarrow as pa
from oxbus import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

path, messages, body_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
namespace = oxbus.Namespace(path, durability="os")
ServiceBusAdministrationClient(namespace).create_queue("bench", enable_partitioning=True)
sender = ServiceBusClient(namespace).get_queue_sender("bench")
for start in range(0, messages, 5000):
    numbers = range(start, min(start + 5000, messages))
    bodies = [number.to_bytes(8, "big") * (body_bytes // 8) for number in numbers]
    sender.send_arrow(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
os.kill(os.getpid(), 9)
"""


def reopen(directory: Path, messages: int, body_bytes: int = BODY_BYTES) -> Figures:
    """Let a process fill a queue and be killed; open what it left.

    Returns:
        `seconds` of opening; `cpu_seconds` that all threads spent on it; `journal_bytes` that it read;
        `bytes_per_s`; `bytes_per_core_s`; `live_messages`.
    """
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / "namespace"
        filler = subprocess.run([sys.executable, "-c", FILLER, str(path), str(messages), str(body_bytes)], check=False)
        expect("the filler was killed", filler.returncode, -9)
        files = [*path.rglob("*.journal"), *path.rglob("*.snapshot")]
        # Without the zeros of preallocated space.
        journal_bytes = sum(len(file.read_bytes().rstrip(b"\0")) for file in files)
        cpu_before, began = _cpu_seconds(), time.perf_counter()
        namespace = oxbus.Namespace(str(path))
        seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - cpu_before
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(QUEUE)
        expect("messages after the kill", counts.total_message_count, messages)
        namespace.close()
    return {
        "live_messages": messages,
        "journal_bytes": journal_bytes,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "bytes_per_s": journal_bytes / seconds,
        "bytes_per_core_s": journal_bytes / cpu_seconds,
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
    # Twice the live bytes, three segments for each shard, and two snapshots of the live bytes.
    bound = 2 * live_bytes + PARTITIONS * 3 * SEGMENT_BYTES_MAX + 2 * live_bytes
    return {"disk_bytes": used, "live_bytes": live_bytes, "bound_bytes": bound}


def _disk_bytes(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _send(sender: oxbus.ServiceBusSender, count: int, body_bytes: int) -> None:
    for start in range(0, count, LIST):
        size = min(LIST, count - start)
        sender.send_messages([ServiceBusMessage(os.urandom(8) * (body_bytes // 8)) for _ in range(size)])
