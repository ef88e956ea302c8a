# SPDX-License-Identifier: Apache-2.0
"""Bulk clients over loopback: columns in and out of another thread's server, in one process; bodies are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
from bodies import bodies_of, read_column
from oxbus.bulk import BulkClient
from oxbus.server import Server, serve
from plan import WHOLE, Plan

from cases.bus import QUEUE, Bus, open_bus
from cases.case import Case, expect

ROWS = 16_384
BODY_BYTES = 1024
BATCHES = 4


@cache
def batch(rows: int) -> pa.RecordBatch:
    """Rows that are spread over the partitions."""
    return pa.record_batch({"body": pa.array(bodies_of(BODY_BYTES, rows), pa.binary())})


@dataclass
class Served:
    """A queue that is served, and a client of the server."""

    bus: Bus
    server: Server
    client: BulkClient
    rows: pa.RecordBatch

    @property
    def sent(self) -> int:
        """How many rows go through."""
        return BATCHES * len(self.rows)

    def close(self) -> None:
        """Close all."""
        self.client.close()
        self.server.close()
        self.bus.close()


def _serve(rows: int) -> Served:
    bus = open_bus()
    server = serve(bus.namespace)
    client = BulkClient(server.connection_string)
    client.describe(QUEUE)
    return Served(bus, server, client, batch(rows))


def _filled(rows: int) -> Served:
    served = _serve(rows)
    for _ in range(BATCHES):
        served.bus.sender.send_arrow(served.rows)
    return served


def _send(served: Served) -> None:
    for _ in range(BATCHES):
        served.client.send(QUEUE, served.rows)


def _receive(served: Served) -> list[pa.Table]:
    tables = []
    while len(table := pa.table(served.client.receive(QUEUE, max_message_count=ROWS))):
        read_column(table["body"], BODY_BYTES)
        tables.append(table)
    return tables


def _settle(served: Served) -> int:
    count = 0
    while len(table := served.client.receive(QUEUE, max_message_count=ROWS)):
        read_column(pa.table(table)["body"], BODY_BYTES)
        served.client.settle(QUEUE, table, "complete")
        count += len(table)
    return count


def _browse(served: Served) -> int:
    count = 0
    for partition in range(served.bus.namespace.partitions):
        number: int | None = 0
        while number is not None:
            page, number = served.client.peek(QUEUE, partition, number)
            read_column(pa.table(page)["body"], BODY_BYTES)
            count += len(page)
    return count


def _check_sent(served: Served, _answer: None) -> None:
    expect("messages in the queue", served.bus.remaining(), served.sent)


def _check_received(served: Served, tables: list[pa.Table]) -> None:
    everything = pa.concat_tables(tables)
    expect("different sequence numbers", len(everything["sequence_number"].unique()), served.sent)
    expect("different bodies", len(everything["body"].combine_chunks().unique()), len(served.rows))


def _check_drained(served: Served, count: int) -> None:
    expect("rows received", count, served.sent)
    expect("messages left", served.bus.remaining(), 0)


def _check_browsed(served: Served, count: int) -> None:
    expect("rows seen", count, served.sent)
    expect("messages left", served.bus.remaining(), served.sent)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Sending, receiving, receiving with settling, and browsing, of rows of 1 KiB."""
    rows = plan.of(ROWS)
    shape, count, empty, filled = f"1KiB/loopback_{ROWS}", rows * BATCHES, partial(_serve, rows), partial(_filled, rows)
    close = Served.close
    return [
        Case(f"bulk_send/{shape}", "oxbus", count, empty, _send, _check_sent, close),
        Case(f"bulk_receive/{shape}", "oxbus", count, filled, _receive, _check_received, close),
        Case(f"bulk_receive_settle/{shape}", "oxbus", count, filled, _settle, _check_drained, close),
        Case(f"bulk_peek/{shape}", "oxbus", count, filled, _browse, _check_browsed, close),
    ]
