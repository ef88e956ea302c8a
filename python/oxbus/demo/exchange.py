# SPDX-License-Identifier: Apache-2.0
"""Through the queue: one sender, and two receivers that compete for every message."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxbus import ServiceBusClient

RECEIVERS = 2
MESSAGES_PER_RECEIVE = 4096
QUIET_SECONDS = 1.0
"""A receiver that waits this long for nothing takes the queue as drained."""


@dataclass(frozen=True)
class Sent:
    """What was sent, in sending order."""

    messages: pa.Table
    seconds: float


@dataclass(frozen=True)
class Received:
    """What one receiver got and completed, in the order it got it."""

    messages: pa.Table
    seconds: float
    """From the common start to its last completed batch."""


def send(
    client: ServiceBusClient,
    queue_name: str,
    batches: Sequence[pa.RecordBatch],
    on_rows: Callable[[int], object] = lambda _rows: None,
) -> Sent:
    """Send encoded flights; the tail number is the partition key, flights without one go keyless."""
    seconds = 0.0
    with client.get_queue_sender(queue_name) as sender:
        for batch in batches:
            message_columns = batch.select(["message_id", "partition_key", "body"])
            started = time.perf_counter()
            sender.send_arrow(message_columns)
            seconds += time.perf_counter() - started
            on_rows(batch.num_rows)
    return Sent(pa.Table.from_batches(batches), seconds)


def receive(
    client: ServiceBusClient, queue_name: str, on_rows: Callable[[int], object] = lambda _rows: None
) -> list[Received]:
    """Drain the queue with competing receivers, each in its own thread.

    Raises:
        BaseException: What stopped a receiver; the other one finishes first.
    """
    start_together = threading.Barrier(RECEIVERS)
    received: list[Received | None] = [None] * RECEIVERS
    failures: list[BaseException] = []

    def drain(place: int) -> None:
        try:
            received[place] = _receive_until_quiet(client, queue_name, start_together, on_rows)
        except BaseException as error:  # noqa: BLE001 -- carried to the caller's thread
            failures.append(error)
            start_together.abort()

    threads = [threading.Thread(target=drain, args=(place,), name=f"receiver {place}") for place in range(RECEIVERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [one for one in received if one is not None]


def _receive_until_quiet(
    client: ServiceBusClient, queue_name: str, start_together: threading.Barrier, on_rows: Callable[[int], object]
) -> Received:
    tables: list[pa.Table] = []
    with client.get_queue_receiver(queue_name) as receiver:
        start_together.wait()
        started = last_completed = time.perf_counter()
        while True:
            batch = pa.table(receiver.receive_arrow(MESSAGES_PER_RECEIVE, max_wait_time=QUIET_SECONDS))
            if batch.num_rows or not tables:
                tables.append(batch)  # an idle receiver still hands over the columns
            if batch.num_rows == 0:
                break
            receiver.settle_arrow(batch, "complete")
            last_completed = time.perf_counter()
            on_rows(batch.num_rows)
    return Received(pa.concat_tables(tables), last_completed - started)
