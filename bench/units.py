# SPDX-License-Identifier: Apache-2.0
"""Cost of one queue and one session, in memory and in time, as their number grows.

Each measurement runs in a separate process:

    python bench/units.py --one queues --units 1000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bodies import END, read_message
from cases.case import expect
from memory import resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = (1, 10, 100, 1_000, 10_000)
SESSIONS = (1, 100, 10_000, 100_000, 1_000_000)
ACCEPTED = 10_000
"""How many sessions are accepted, drained and closed at most; more would only take longer."""
CHUNK = 10_000
FIRST_SENDS = 100
"""The number of queues to which a new sender sends its first message, over and over."""
FIRST_SEND_ROUNDS = 20
BODY = b"x" * 99 + END
QUEUE_MEGABYTES = 81_920

Figures = dict[str, float]


def measure(kind: str, units: int) -> Figures:
    """Figures per unit, measured in a separate process."""
    command = [sys.executable, __file__, "--one", kind, "--units", str(units)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(answer.stdout)
    return found


def _queues(units: int, *, partitioned: bool) -> Figures:
    import oxbus  # noqa: PLC0415
    from oxbus import ServiceBusClient, ServiceBusMessage  # noqa: PLC0415
    from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415

    namespace = oxbus.Namespace()
    admin, client = ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)

    def create(name: str) -> None:
        admin.create_queue(name, enable_partitioning=partitioned)

    def cycle(name: str) -> None:
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
            sender.send_messages(ServiceBusMessage(BODY))
            (message,) = receiver.receive_messages(max_wait_time=5)
            read_message(message, len(BODY))
            receiver.complete_message(message)

    def first_send(name: str) -> None:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage(BODY))

    create("warm-up")
    cycle("warm-up")
    names = [f"queue-{number}" for number in range(units)]
    before = resident_bytes()
    create_us = _us_each(create, names)
    created = resident_bytes()
    open_us = _us_each(cycle, names)
    used = resident_bytes()
    again_us = _us_each(cycle, names)
    for name in (names[0], names[-1]):
        expect("messages left", admin.get_queue_runtime_properties(name).total_message_count, 0)
    first_send_us = _us_each(first_send, names[:FIRST_SENDS] * FIRST_SEND_ROUNDS)
    expect("messages sent", admin.get_queue_runtime_properties(names[0]).total_message_count, FIRST_SEND_ROUNDS)
    client.close()
    namespace.close()
    return {
        "create_us": create_us,
        "first_cycle_us": open_us,
        "cycle_us": again_us,
        "first_send_us": first_send_us,
        "bytes_created": (created - before) / units,
        "bytes_used": (used - before) / units,
    }


def _us_each(work: Callable[[str], None], names: list[str]) -> float:
    began = time.perf_counter()
    for name in names:
        work(name)
    return (time.perf_counter() - began) * 1e6 / len(names)


def _filled(messages: int, *, sessions: bool) -> tuple[Any, float, float]:
    """A queue with a message per session, or as many messages without; seconds and resident bytes it took."""
    import pyarrow as pa  # noqa: PLC0415
    from cases.bus import open_bus  # noqa: PLC0415

    bus = open_bus(requires_session=sessions, max_size_in_megabytes=QUEUE_MEGABYTES)
    before = resident_bytes()
    began = time.perf_counter()
    for start in range(0, messages, CHUNK):
        rows = min(CHUNK, messages - start)
        columns = {"body": pa.array([BODY] * rows, pa.binary())}
        if sessions:
            columns["session_id"] = pa.array([f"session-{start + row}" for row in range(rows)], pa.string())
        bus.sender.send_arrow(pa.record_batch(columns))
    seconds = time.perf_counter() - began
    pa.default_memory_pool().release_unused()
    return bus, seconds, resident_bytes() - before


def _sessions(units: int) -> Figures:
    from cases.bus import QUEUE  # noqa: PLC0415
    from oxbus import NEXT_AVAILABLE_SESSION  # noqa: PLC0415

    warm, _, _ = _filled(CHUNK, sessions=True)
    warm.close()
    plain, plain_s, plain_bytes = _filled(units, sessions=False)
    plain.close()
    bus, fill_s, fill_bytes = _filled(units, sessions=True)
    accepted = min(units, ACCEPTED)
    ids = set()
    began = time.perf_counter()
    for _ in range(accepted):
        with bus.client.get_queue_receiver(QUEUE, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0) as receiver:
            ids.add(receiver.session.session_id)
            (message,) = receiver.receive_messages(max_wait_time=0)
            read_message(message, len(BODY))
            receiver.complete_message(message)
    seconds = time.perf_counter() - began
    expect("different sessions", len(ids), accepted)
    expect("messages left", bus.remaining(), units - accepted)
    bus.close()
    return {
        "send_us": fill_s * 1e6 / units,
        "send_without_session_us": plain_s * 1e6 / units,
        "accept_drain_close_us": seconds * 1e6 / accepted,
        "bytes_with_message": fill_bytes / units,
        "bytes_beyond_message": (fill_bytes - plain_bytes) / units,
    }


KINDS: dict[str, Callable[[int], Figures]] = {
    "queues": lambda units: _queues(units, partitioned=False),
    "partitioned_queues": lambda units: _queues(units, partitioned=True),
    "sessions": _sessions,
}
COUNTS = {"queues": QUEUES, "partitioned_queues": QUEUES, "sessions": SESSIONS}


def main() -> None:
    """Print the figures of one measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", choices=list(KINDS), required=True)
    parser.add_argument("--units", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(KINDS[options.one](options.units)))


if __name__ == "__main__":
    main()
