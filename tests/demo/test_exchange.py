# SPDX-License-Identifier: Apache-2.0
"""Sending and receiving continue after an interruption between any action and its note.

The namespace stays open; the calls and the progress notes are interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest
from oxbus.demo import checks, exchange
from oxbus.demo.data_directory import DataDirectory
from oxbus.demo.deliveries import Deliveries
from oxbus.demo.encoded import PARTITIONS, SCHEMA, EncodedFlights
from oxbus.demo.progress_log import DurableProgressLog, ProgressLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.testing import ManualClock

FLIGHTS, BATCH = 300, 100
QUEUE = "spread"
COLUMNS = ["message_id", "partition_key", "body"]
ROWS_PER_RECEIVE = 10
MORE_THAN_A_LOCK_SECONDS = 61

pytestmark = pytest.mark.usefixtures("partitioned_queue")


class KilledError(Exception):
    """Simulates the end of the process."""


class Interrupted:
    """A client or receiver whose first batch is interrupted at a point; all other calls work."""

    def __init__(self, inner: Any, point: str, pending: list[bool] | None = None) -> None:
        self._inner, self._point = inner, point
        self._pending = [True] if pending is None else pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)

    def get_queue_receiver(self, name: str) -> Interrupted:
        """A receiver that shares the one interruption."""
        return Interrupted(self._inner.get_queue_receiver(name), self._point, self._pending)

    def _now(self, point: str) -> bool:
        return point == self._point and bool(self._pending) and self._pending.pop()

    def receive_arrow(self, count: int, *, max_wait_time: float) -> pa.Table:
        """Receive; an interruption may lose the returned rows."""
        table = pa.table(self._inner.receive_arrow(count, max_wait_time=max_wait_time))
        if table.num_rows and self._now("received"):
            raise KilledError
        return table

    def settle_arrow(self, batch: pa.Table, outcome: Any) -> None:
        """Settle none, half or all of the rows before the end."""
        if self._now("settle"):
            raise KilledError
        if self._now("half a settle"):
            self._inner.settle_arrow(batch.slice(0, batch.num_rows // 2), outcome)
            raise KilledError
        self._inner.settle_arrow(batch, outcome)
        if self._now("settled"):
            raise KilledError


@pytest.fixture(autouse=True)
def small_receives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use many batches, and send everything before the receivers start, so that an empty queue is final."""
    monkeypatch.setattr(exchange, "MESSAGES_PER_RECEIVE", ROWS_PER_RECEIVE)
    monkeypatch.setattr(exchange, "QUIET_SECONDS", 0.2)


@pytest.fixture
def batches() -> list[pa.RecordBatch]:
    """Three batches of made-up flights, every thirtieth without a tail number."""
    table = pa.table(
        {
            "message_id": [f"flight-{row}" for row in range(FLIGHTS)],
            "partition_key": [None if row % 30 == 0 else f"N{row % 25:05}" for row in range(FLIGHTS)],
            "body": [b"%d" % row for row in range(FLIGHTS)],
            "spark_partition": [None] * FLIGHTS,
        },
        schema=SCHEMA,
    )
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=BATCH)
    return batches


def store(client: ServiceBusClient, batch: pa.RecordBatch) -> None:
    """Send messages without a note."""
    with client.get_queue_sender(QUEUE) as sender:
        sender.send_arrow(batch.select(COLUMNS))


def stored_ids(client: ServiceBusClient) -> list[str]:
    """The ids of all messages in the queue, sorted."""
    with client.get_queue_receiver(QUEUE) as browser:
        return sorted(str(message.message_id) for message in iter_peek(browser))


def iter_peek(browser: ServiceBusReceiver) -> Iterator[ServiceBusReceivedMessage]:
    """All messages that a browser sees."""
    while messages := browser.peek_messages(250):
        yield from messages


def all_ids(batches: list[pa.RecordBatch]) -> list[str]:
    """The ids of all messages, sorted."""
    return sorted(pa.Table.from_batches(batches)["message_id"].to_pylist())


def noted(batches: int) -> ProgressLog:
    """A progress log with that many acknowledged batches."""
    notes = ProgressLog()
    notes.acknowledge(batches)
    return notes


@pytest.mark.parametrize("in_doubt", [0, 37, BATCH])
def test_missing_rows_of_an_uncertain_batch_are_sent(
    client: ServiceBusClient, batches: list[pa.RecordBatch], in_doubt: int
) -> None:
    """None, some or all of it may be in the queue; afterwards the queue has each message once."""
    store(client, batches[0])
    store(client, batches[1].slice(0, in_doubt))
    notes = noted(1)
    sent = exchange.send(client, QUEUE, batches, notes)
    assert stored_ids(client) == all_ids(batches)
    assert (sent.found_in_queue, sent.missing, sent.rows) == (in_doubt, 0, FLIGHTS - BATCH - in_doubt)
    assert notes.acknowledged_batches == len(batches)
    assert all(check.passed for check in checks.check_kept(sent))


def test_lost_batch_is_not_sent_again(client: ServiceBusClient, batches: list[pa.RecordBatch]) -> None:
    """A batch that was acknowledged and is gone must be reported as lost, not sent again."""
    store(client, batches[0].slice(1))
    sent = exchange.send(client, QUEUE, batches, noted(1))
    assert sent.missing == 1
    assert "flight-0" not in stored_ids(client)
    assert [check.passed for check in checks.check_kept(sent)] == [False]


def test_full_queue_is_not_filled_again(client: ServiceBusClient, batches: list[pa.RecordBatch]) -> None:
    """If all batches were acknowledged, an empty queue was drained."""
    sent = exchange.send(client, QUEUE, batches, noted(len(batches)))
    assert stored_ids(client) == []
    assert sent.rows == 0
    assert sent.messages.num_rows == FLIGHTS


def test_first_run_makes_no_claim_about_kills(client: ServiceBusClient, batches: list[pa.RecordBatch]) -> None:
    """The claim about acknowledged messages before a kill needs a kill."""
    assert checks.check_kept(exchange.send(client, QUEUE, batches, ProgressLog())) == []


@pytest.mark.parametrize(
    ("point", "noted_again", "redelivered"),
    [
        ("received", 0, ROWS_PER_RECEIVE),
        ("settle", ROWS_PER_RECEIVE, ROWS_PER_RECEIVE),
        ("half a settle", ROWS_PER_RECEIVE // 2, ROWS_PER_RECEIVE // 2),
        ("settled", 0, 0),
    ],
)
def test_interrupted_receiver_is_continued(
    tmp_path: Path,
    client: ServiceBusClient,
    clock: ManualClock,
    batches: list[pa.RecordBatch],
    point: str,
    noted_again: int,
    redelivered: int,
) -> None:
    """After an interruption at any step, the next run completes the rest and every check holds."""
    encoded = EncodedFlights(batches, FLIGHTS, FLIGHTS // 30)
    with DataDirectory(tmp_path / "demo") as directory:
        notes = DurableProgressLog(directory)
        exchange.send(client, QUEUE, notes.encoded(lambda: encoded).batches, notes)
        with pytest.raises(KilledError):
            exchange.receive(Interrupted(client, point), QUEUE, notes)  # type: ignore[arg-type]
    clock.advance(MORE_THAN_A_LOCK_SECONDS)
    with DataDirectory(tmp_path / "demo") as directory:
        notes = DurableProgressLog(directory)
        kept = notes.encoded(lambda: pytest.fail("the flights were encoded already"))
        sent = exchange.send(client, QUEUE, kept.batches, notes)
        exchange.receive(client, QUEUE, notes)
        deliveries = Deliveries(notes.deliveries())
    assert notes.run == 2
    assert int(deliveries.noted_again.sum()) == noted_again
    assert deliveries.redelivered == redelivered
    left_in_queue = len(stored_ids(client))
    found = checks.check_delivery(sent.messages, deliveries, PARTITIONS, left_in_queue)
    assert [check for check in found if not check.passed] == []
    assert sum(deliveries.per_receiver(2, exchange.RECEIVERS)) == FLIGHTS


def test_stored_messages_equal_the_encoded_ones(tmp_path: Path, batches: list[pa.RecordBatch]) -> None:
    """Columns, batches and counts read from the file equal those written."""
    with DataDirectory(tmp_path / "demo") as directory:
        first = DurableProgressLog(directory).encoded(lambda: EncodedFlights(batches, FLIGHTS, 10, 1.5))
        again = DurableProgressLog(directory).encoded(lambda: pytest.fail("the flights were encoded already"))
        assert first == again == EncodedFlights(batches, FLIGHTS, 10, 1.5)
