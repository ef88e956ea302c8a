# SPDX-License-Identifier: Apache-2.0
"""How long an open takes of what a server left that was filled: one that closed, and one that was killed.

After a kill the open takes the namespace over, which a refused connection to the dead server allows at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cases.case import expect
from oxbus.management import ServiceBusAdministrationClient
from peers.oxbus_queue import QUEUE
from turns import Found

from stored.contenders import name_of
from stored.queues import StoredQueue, client_of, declare, namespace_of, server_of, stop
from stored.scale import BODIES
from stored.threads import together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stored_server import StoredPlace

    from stored.places import Place

CLOSED = "open/1KiB/stored_closed"
KILLED = "open/1KiB/stored_killed"
CASES = (CLOSED, KILLED)
THREADS = 4
LISTS_AT_ONCE = 2


def figures(place: Place, case: str, messages: int, ending: str = "") -> Iterator[Found]:
    """Seconds of one open; `ending` is that of the id."""
    with place.run() as found:
        declare(found)
        with server_of(found) as server:
            rate = _fill(server.port, messages)
            if case == CLOSED:
                stop(server)
        seconds = _seconds_of_open(found, messages, is_killed=case == KILLED)
        name = name_of(place)
        yield Found(case + ending, name, {"seconds": seconds, "throughput_msg_per_s": rate}, place.level.value)


def _fill(port: int, messages: int) -> float:
    """Send by AMQP, in longer lists than the other figures, as only the content matters; return the rate."""
    queue = StoredQueue(client_of(port))
    bodies = BODIES * LISTS_AT_ONCE

    def send(thread: int) -> tuple[int, float]:
        count = 0
        for start in range(thread * len(bodies), messages, THREADS * len(bodies)):
            wanted = bodies[: messages - start]
            queue.send_many(wanted)
            count += len(wanted)
        return count, time.perf_counter()

    try:
        return together(THREADS, queue.attach, send)
    finally:
        queue.close()


def _seconds_of_open(place: StoredPlace, messages: int, *, is_killed: bool) -> float:
    began = time.perf_counter()
    with namespace_of(place, standby=is_killed) as namespace:
        seconds = time.perf_counter() - began
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(QUEUE)
        expect("messages after the open", counts.total_message_count, messages)
    return seconds
