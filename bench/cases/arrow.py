# SPDX-License-Identifier: Apache-2.0
"""Columns in, columns out: no Python object per message. The column of bodies is read where rows are received."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import ceiling
import pyarrow as pa
from bodies import bodies_of, read_column
from plan import WHOLE, Plan
from targets import CEILING

from cases.bus import Bus, open_bus
from cases.case import Case, expect
from cases.peer_queues import ceiling_by_hundred

ROWS = 4096
BATCHES = 4
SELECTED = ["body", "lock_token"]
"""The columns that reading and completing needs."""


@cache
def keyless_batch(size: int) -> pa.RecordBatch:
    """Rows that are spread over the partitions."""
    return pa.record_batch({"body": pa.array(bodies_of(size, ROWS), pa.binary())})


@cache
def keyed_batch(size: int) -> pa.RecordBatch:
    """Rows of 500 keys."""
    keys = [f"key-{row % 500}" for row in range(ROWS)]
    return pa.record_batch(
        {"body": pa.array(bodies_of(size, ROWS), pa.binary()), "partition_key": pa.array(keys, pa.string())}
    )


@dataclass
class Locked:
    """A queue whose messages are all locked and held as tables."""

    bus: Bus
    tables: list[pa.Table]


def _send(state: tuple[Bus, pa.RecordBatch]) -> None:
    bus, batch = state
    for _ in range(BATCHES):
        bus.sender.send_arrow(batch)


def _receive(bus: Bus, body_bytes: int) -> list[pa.Table]:
    tables = []
    while (table := pa.table(bus.receiver.receive_arrow(ROWS, max_wait_time=0))).num_rows:
        read_column(table["body"], body_bytes)
        tables.append(table)
    return tables


def _settle(locked: Locked) -> None:
    for table in locked.tables:
        locked.bus.receiver.settle_arrow(table, "complete")


def _receive_and_settle(bus: Bus, body_bytes: int, columns: list[str] | None = None) -> int:
    count, receive = 0, partial(bus.receiver.receive_arrow, ROWS, max_wait_time=0, **_selection(columns))
    while (table := pa.table(receive())).num_rows:
        read_column(table["body"], body_bytes)
        bus.receiver.settle_arrow(table, "complete")
        count += table.num_rows
    return count


def _selection(columns: list[str] | None) -> dict[str, Any]:
    """The option that selects columns; none for the whole table."""
    return {} if columns is None else {"columns": columns}


def _filled(batch: pa.RecordBatch) -> Bus:
    bus = open_bus()
    _send((bus, batch))
    return bus


def _locked(size: int) -> Locked:
    bus = _filled(keyless_batch(size))
    return Locked(bus, _receive(bus, size))


def _check_sent(state: tuple[Bus, pa.RecordBatch], _answer: None) -> None:
    expect("messages in the queue", state[0].remaining(), ROWS * BATCHES)


def _check_received(_bus: Bus, tables: list[pa.Table]) -> None:
    everything = pa.concat_tables(tables)
    expect("rows received", everything.num_rows, ROWS * BATCHES)
    numbers = everything["sequence_number"].to_numpy()
    expect("different sequence numbers", len(set(numbers.tolist())), ROWS * BATCHES)
    bodies = everything["body"].combine_chunks()
    expect("different bodies", len(bodies.unique()), ROWS)


def _check_settled(locked: Locked, _answer: None) -> None:
    expect("messages left", locked.bus.remaining(), 0)


def _check_drained(bus: Bus, count: int) -> None:
    expect("rows received", count, ROWS * BATCHES)
    expect("messages left", bus.remaining(), 0)


# --- the ceiling, columns in and out: the same ring, one hold of its mutex for a batch


def _ceiling_filled(columns: pa.Array) -> Any:
    queue = ceiling.queue()
    _ceiling_send((queue, columns))
    return queue


def _ceiling_send(state: tuple[Any, pa.Array]) -> None:
    queue, columns = state
    _, offsets, data = columns.buffers()
    for _ in range(BATCHES):
        queue.send_columns(offsets.address, data.address, len(columns))


def _column(rows: int, offsets: bytes, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _ceiling_receive(queue: Any, body_bytes: int) -> list[tuple[Any, Any, pa.Array]]:
    taken = []
    while (answer := queue.receive_columns(ROWS))[0]:
        rows, numbers, tokens, offsets, data = answer
        column = _column(rows, offsets, data)
        read_column(column, body_bytes)
        taken.append((numbers, tokens, column))
    return taken


def _ceiling_receive_and_settle(queue: Any, body_bytes: int) -> int:
    count = 0
    while (answer := queue.receive_columns(ROWS))[0]:
        rows, numbers, tokens, offsets, data = answer
        read_column(_column(rows, offsets, data), body_bytes)
        queue.complete_columns(numbers, tokens)
        count += rows
    return count


def _ceiling_settle(state: tuple[Any, list[Any]]) -> None:
    for numbers, tokens, _ in state[1]:
        state[0].complete_columns(numbers, tokens)


def _ceiling_check_received(_queue: Any, received: list[Any]) -> None:
    bodies = pa.concat_arrays([column for _, _, column in received])
    expect("rows received", len(bodies), ROWS * BATCHES)
    expect("different bodies", len(bodies.unique()), ROWS)


def _ceiling_cases(size: int, payload: str) -> list[Case]:
    if ceiling.load() is None:
        return []
    columns = keyless_batch(size).column("body")

    def case(operation: str, prepare: Any, run: Any, check: Any) -> Case:
        return Case(f"{operation}/{payload}/arrow_{ROWS}", CEILING, ROWS * BATCHES, prepare, run, check)

    def empty() -> tuple[Any, pa.Array]:
        return ceiling.queue(), columns

    def filled() -> Any:
        return _ceiling_filled(columns)

    def locked() -> tuple[Any, list[Any]]:
        queue = filled()
        return queue, _ceiling_receive(queue, size)

    def check_sent(state: tuple[Any, Any], _answer: None) -> None:
        expect("messages in the ceiling", len(state[0]), ROWS * BATCHES)

    def check_settled(state: tuple[Any, Any], _answer: None) -> None:
        expect("messages left", len(state[0]), 0)

    def check_drained(queue: Any, count: int) -> None:
        expect("rows received", count, ROWS * BATCHES)
        expect("messages left", len(queue), 0)

    bodies = bodies_of(size, ROWS * BATCHES)
    return [
        case("send_arrow", empty, _ceiling_send, check_sent),
        case("send_arrow_keyed", empty, _ceiling_send, check_sent),
        case("receive_arrow", filled, partial(_ceiling_receive, body_bytes=size), _ceiling_check_received),
        case("settle_arrow", locked, _ceiling_settle, check_settled),
        case("receive_settle_arrow", filled, partial(_ceiling_receive_and_settle, body_bytes=size), check_drained),
        *ceiling_by_hundred(f"send_arrow/{payload}/arrow_{ROWS}", bodies, sends=True),
        *ceiling_by_hundred(f"receive_settle_arrow/{payload}/arrow_{ROWS}", bodies, sends=False),
    ]


def cases(_plan: Plan = WHOLE) -> list[Case]:
    """Sending with and without keys, receiving, settling, and receiving with settling."""
    return [case for size, payload in ((100, "100B"), (1024, "1KiB")) for case in _cases_of(size, payload)]


def _cases_of(size: int, payload: str) -> list[Case]:
    def case(operation: str, prepare: Any, run: Any, check: Any, dispose: Any) -> Case:
        bench_id = f"{operation}/{payload}/arrow_{ROWS}"
        return Case(bench_id, "oxbus", ROWS * BATCHES, prepare, run, check, dispose)

    def close_first(state: tuple[Bus, pa.RecordBatch]) -> None:
        state[0].close()

    def close_locked(locked: Locked) -> None:
        locked.bus.close()

    receive, drain = partial(_receive, body_bytes=size), partial(_receive_and_settle, body_bytes=size)
    drain_selected = partial(drain, columns=SELECTED)
    return [
        case("send_arrow", lambda: (open_bus(), keyless_batch(size)), _send, _check_sent, close_first),
        case("send_arrow_keyed", lambda: (open_bus(), keyed_batch(size)), _send, _check_sent, close_first),
        case("receive_arrow", lambda: _filled(keyless_batch(size)), receive, _check_received, Bus.close),
        case("settle_arrow", lambda: _locked(size), _settle, _check_settled, close_locked),
        case("receive_settle_arrow", lambda: _filled(keyless_batch(size)), drain, _check_drained, Bus.close),
        case(
            "receive_settle_arrow_selected",
            lambda: _filled(keyless_batch(size)),
            drain_selected,
            _check_drained,
            Bus.close,
        ),
        *_ceiling_cases(size, payload),
    ]
