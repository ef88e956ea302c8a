# SPDX-License-Identifier: Apache-2.0
"""Through the queue: one sender, and two receivers that compete for messages.

Both continue a killed run. The receivers start only after all batches are sent, so a queue that is still being filled
holds everything that was stored in it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from oxbus.demo.deliveries import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxbus import ServiceBusClient, ServiceBusReceiver
    from oxbus.demo.progress_log import ProgressLog

RECEIVERS = 2
MESSAGES_PER_RECEIVE = 4096
MESSAGES_PER_PEEK = 250
QUIET_SECONDS = 1.0
"""A receiver that gets nothing for this long considers the queue drained."""


@dataclass(frozen=True)
class SendResult:
    """The sent messages, in order."""

    messages: pa.Table
    """All messages, those of earlier runs included."""
    rows: int
    """Number that this run sent."""
    seconds: float
    acknowledged_before: int
    """Number acknowledged to earlier runs, if the queue was not filled yet; 0 once it was."""
    missing: int
    """Number of those that this run did not find in the queue."""
    found_in_queue: int
    """Number found in the queue without an acknowledgement, and not sent again."""


@dataclass(frozen=True)
class ReceiveResult:
    """The messages that one receiver got and completed in this run."""

    rows: int
    seconds: float
    """From the common start to its last completed batch."""


def send(
    client: ServiceBusClient,
    queue_name: str,
    batches: Sequence[pa.RecordBatch],
    notes: ProgressLog,
    on_rows: Callable[[int], object] = lambda _rows: None,
) -> SendResult:
    """Send encoded flights; the tail number is the partition key, flights without one have no key.

    Acknowledged batches are not sent again, whatever the queue contains: a batch that it lost must be detected.
    Of the first unacknowledged batch, only messages that are not in the queue are sent.
    """
    messages = pa.Table.from_batches(batches)
    first = notes.acknowledged_batches
    acknowledged = pa.Table.from_batches(batches[:first], messages.schema)
    on_rows(acknowledged.num_rows)
    if first == len(batches):
        return SendResult(messages, 0, 0.0, acknowledged_before=0, missing=0, found_in_queue=0)

    in_queue = _message_ids_in(client, queue_name)
    missing = acknowledged.num_rows - _count(acknowledged["message_id"], in_queue)
    found_in_queue = _count(batches[first]["message_id"], in_queue)
    rows, seconds = 0, 0.0
    with client.get_queue_sender(queue_name) as sender:
        for number, batch in enumerate(batches[first:], start=first):
            unsent = _without(batch, in_queue) if number == first else batch
            started = time.perf_counter()
            if unsent.num_rows:
                sender.send_arrow(unsent.select(["message_id", "partition_key", "body"]))
            seconds += time.perf_counter() - started
            notes.acknowledge(number + 1)
            rows += unsent.num_rows
            on_rows(batch.num_rows)
    return SendResult(messages, rows, seconds, acknowledged.num_rows, missing, found_in_queue)


def receive(
    client: ServiceBusClient, queue_name: str, notes: ProgressLog, on_rows: Callable[[int], object] = lambda _rows: None
) -> list[ReceiveResult]:
    """Drain the queue with competing receivers, each in its own thread; `notes` records the deliveries.

    Raises:
        BaseException: The error of a receiver; the other one finishes its batch first.
    """
    start_together = threading.Barrier(RECEIVERS)
    stop = threading.Event()
    received: list[ReceiveResult | None] = [None] * RECEIVERS
    failures: list[BaseException] = []

    def drain(number: int, receiver: ServiceBusReceiver) -> None:
        try:
            start_together.wait()
            received[number] = _receive_until_quiet(receiver, number, notes, stop, on_rows)
        except BaseException as error:  # noqa: BLE001 -- carried to the caller's thread
            failures.append(error)
            stop.set()

    # Closed after all have ended: released messages would reach the other receiver out of order.
    with contextlib.ExitStack() as open_receivers:
        receivers = [open_receivers.enter_context(client.get_queue_receiver(queue_name)) for _ in range(RECEIVERS)]
        threads = [threading.Thread(target=drain, args=each) for each in enumerate(receivers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C
            stop.set()
            start_together.abort()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
    if failures:
        raise failures[0]
    return [result for result in received if result is not None]


def _receive_until_quiet(
    receiver: ServiceBusReceiver,
    receiver_number: int,
    notes: ProgressLog,
    stop: threading.Event,
    on_rows: Callable[[int], object],
) -> ReceiveResult:
    rows = 0
    started = last_completed = time.perf_counter()
    for number in count():
        if stop.is_set():
            break
        batch = pa.table(receiver.receive_arrow(MESSAGES_PER_RECEIVE, max_wait_time=QUIET_SECONDS))
        if batch.num_rows == 0:
            break
        notes.take(receiver_number, number, batch.select(SCHEMA.names).cast(SCHEMA))
        receiver.settle_arrow(batch, "complete")
        notes.complete(receiver_number, number)
        last_completed = time.perf_counter()
        rows += batch.num_rows
        on_rows(batch.num_rows)
    return ReceiveResult(rows, last_completed - started)


def _message_ids_in(client: ServiceBusClient, queue_name: str) -> pa.Array:
    """Return the ids of all messages in the queue, by peeking."""
    ids: list[str | None] = []
    number = 1
    with client.get_queue_receiver(queue_name) as browser:
        while messages := browser.peek_messages(MESSAGES_PER_PEEK, sequence_number=number):
            ids += [message.message_id for message in messages]
            number = (messages[-1].sequence_number or 0) + 1
    return pa.array(ids, pa.string())


def _count(message_ids: pa.Array, in_queue: pa.Array) -> int:
    found: int = pc.sum(pc.is_in(message_ids, in_queue)).as_py() or 0
    return found


def _without(batch: pa.RecordBatch, in_queue: pa.Array) -> pa.RecordBatch:
    return batch.filter(pc.invert(pc.is_in(batch["message_id"], in_queue)))
