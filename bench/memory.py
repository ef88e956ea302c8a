# SPDX-License-Identifier: Apache-2.0
"""Resident bytes per stored message.

Each figure comes from a fresh process, so that one contender's freed memory is never another's.
A process fills a queue with distinct 100-byte bodies and reads its resident size before and after.

    python bench/memory.py --one "oxbus, Arrow" --messages 1000000
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BODY_BYTES = 100
CHUNK = 10_000
MESSAGES = 1_000_000
LEAST_ON_DISK = 10 * CHUNK
"""Fewer are lost among those that warm up."""
ON_DISK = "oxbus, on disk"
BYTES_ON_DISK_MAX = 64
"""The memory limit per message of the queue on disk: too little for the bodies."""
CACHE = Path(__file__).parent / ".cache" / "data"


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


def _fill_ceiling(messages: int) -> Any:
    import ceiling  # noqa: PLC0415

    compiled = ceiling.load()
    if compiled is None:
        raise SystemExit("no C compiler here")
    queue = compiled.Queue()
    for start in range(0, messages, CHUNK):
        queue.send_many([body_of(number) for number in range(start, start + CHUNK)])
    return queue


def _fill_deque(messages: int) -> Any:
    return deque(body_of(number) for number in range(messages))


CONTENDERS: dict[str, Callable[[int], Any]] = {
    "oxbus, lists of 100": _fill_in_batches,
    "oxbus, Arrow": _fill_by_arrow,
    "PeekLock in Python": _fill_peeklock,
    "ceiling (C)": _fill_ceiling,
    "collections.deque of bytes": _fill_deque,
}


def _on_disk(messages: int) -> float:
    """Bytes per message of a durable queue that may keep next to no bodies in memory; in this process."""
    import tempfile  # noqa: PLC0415

    import oxbus  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    from oxbus import ServiceBusClient  # noqa: PLC0415
    from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415

    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "namespace"
        limit = BYTES_ON_DISK_MAX * messages
        with oxbus.Namespace(path, durability="os", memory_limit_bytes=limit) as namespace:
            admin = ServiceBusAdministrationClient(namespace)
            admin.create_queue("bench", enable_partitioning=True)
            client = ServiceBusClient(namespace)
            sender = client.get_queue_sender("bench")

            def send(count: int) -> None:
                for start in range(0, count, 1000):
                    bodies = [body_of(number) for number in range(start, start + 1000)]
                    sender.send_arrow(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
                pa.default_memory_pool().release_unused()

            send(CHUNK)
            before = resident_bytes()
            send(messages)
            after = resident_bytes()
            stored = admin.get_queue_runtime_properties("bench").total_message_count
            if stored != messages + CHUNK:
                raise SystemExit(f"{stored} messages stored instead of {messages + CHUNK}")
            client.close()
    return (after - before) / messages


def _measure_here(contender: str, messages: int) -> float:
    """Bytes per message, in this process."""
    if contender == ON_DISK:
        return _on_disk(messages)
    fill = CONTENDERS[contender]
    keep_warm = fill(CHUNK)  # imports, thread pools and first segments are not the messages' bytes
    before = resident_bytes()
    filled = fill(messages)
    after = resident_bytes()
    del keep_warm, filled
    return (after - before) / messages


def bytes_per_message(contender: str, messages: int) -> float:
    """Bytes per message, measured in a separate process."""
    command = [sys.executable, __file__, "--one", contender, "--messages", str(messages)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(answer.stdout))


def main() -> None:
    """Print the bytes per message of one contender as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", choices=[*CONTENDERS, ON_DISK], required=True)
    parser.add_argument("--messages", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(_measure_here(options.one, options.messages)))


if __name__ == "__main__":
    main()
