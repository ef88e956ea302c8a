# SPDX-License-Identifier: Apache-2.0
"""The bulk plane over loopback: columns in and out of another thread's server, in one process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from oxbus.bulk import BulkClient, BulkServer

from cases.bus import QUEUE, Bus, bodies_of, open_bus
from cases.case import Case, expect

ROWS = 16_384
BATCHES = 4


@cache
def batch(size: int) -> pa.RecordBatch:
    """Rows that are spread over the partitions."""
    return pa.record_batch({"body": pa.array(bodies_of(size, ROWS), pa.binary())})


@dataclass
class Served:
    """A queue that is served, and a client of the server."""

    bus: Bus
    server: BulkServer
    client: BulkClient
    rows: pa.RecordBatch

    def close(self) -> None:
        """Close all."""
        self.client.close()
        self.server.close()
        self.bus.close()


def _serve(size: int) -> Served:
    bus = open_bus()
    server = bus.namespace.serve_bulk()
    client = BulkClient(server.connection_string)
    client.describe(QUEUE)
    return Served(bus, server, client, batch(size))


def _filled(size: int) -> Served:
    served = _serve(size)
    for _ in range(BATCHES):
        served.bus.sender.send_arrow(served.rows)
    return served


def _send(served: Served) -> None:
    for _ in range(BATCHES):
        served.client.send(QUEUE, served.rows)


def _receive(served: Served) -> list[pa.Table]:
    tables = []
    while len(table := served.client.receive(QUEUE, max_message_count=ROWS)):
        tables.append(pa.table(table))
    return tables


def _settle(served: Served) -> int:
    count = 0
    while len(table := served.client.receive(QUEUE, max_message_count=ROWS)):
        served.client.settle(QUEUE, table, "complete")
        count += len(table)
    return count


def _browse(served: Served) -> int:
    count = 0
    for partition in range(served.bus.namespace.partitions):
        number: int | None = 0
        while number is not None:
            page, number = served.client.peek(QUEUE, partition, number)
            count += len(page)
    return count


def _check_sent(served: Served, _answer: None) -> None:
    expect("messages in the queue", served.bus.left(), ROWS * BATCHES)


def _check_received(_served: Served, tables: list[pa.Table]) -> None:
    everything = pa.concat_tables(tables)
    expect("different sequence numbers", len(everything["sequence_number"].unique()), ROWS * BATCHES)
    expect("different bodies", len(everything["body"].combine_chunks().unique()), ROWS)


def _check_drained(served: Served, count: int) -> None:
    expect("rows received", count, ROWS * BATCHES)
    expect("messages left", served.bus.left(), 0)


def _check_browsed(served: Served, count: int) -> None:
    expect("rows seen", count, ROWS * BATCHES)
    expect("messages left", served.bus.left(), ROWS * BATCHES)


def cases() -> list[Case]:
    """Sending, receiving, receiving with settling, and browsing, of rows of 1 KiB."""
    size, shape, count = 1024, f"1KiB/loopback_{ROWS}", ROWS * BATCHES
    close = Served.close
    return [
        Case(f"bulk_send/{shape}", "oxbus", count, lambda: _serve(size), _send, _check_sent, close),
        Case(f"bulk_receive/{shape}", "oxbus", count, lambda: _filled(size), _receive, _check_received, close),
        Case(
            f"bulk_receive_settle/{shape}",
            "oxbus",
            count,
            lambda: _filled(size),
            _settle,
            _check_drained,
            close,
        ),
        Case(f"bulk_peek/{shape}", "oxbus", count, lambda: _filled(size), _browse, _check_browsed, close),
    ]
