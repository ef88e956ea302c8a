# SPDX-License-Identifier: Apache-2.0
"""A settling stream: each batch is a reservation; here without Spark, in `test_spark_streams` with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from driven_stream import Query
from oxbus.exceptions import MessageLockLostError, MessagingEntityNotFoundError
from oxbus.spark.source.consumer import CheckpointBehindBrokerError, ConsumerTakenError
from oxbus.spark.source.offsets import ForeignCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_broker import Broker

limits = pytest.importorskip("pyspark.sql.streaming.datasource")  # needs PySpark 4.2

ROWS = 500


@pytest.fixture
def start(broker: Broker) -> Iterator[Any]:
    """Start a run of a query on `in`; `logs` are its offset log and commit log, to continue an earlier run."""
    runs: list[Query] = []

    def start(logs: tuple[list[str], list[int]] | None = None, **options: object) -> Query:
        given = {"maxWaitMs": 0, "maxMessagesPerTrigger": 200} | options
        runs.append(Query(broker.options(**({"queue": "in"} | given)), *(logs or ([], []))))
        return runs[-1]

    yield start
    for run in runs:
        run.stop()


def numbers(batches: list[list[dict[str, Any]]]) -> list[int]:
    """The bodies as numbers, sorted."""
    return sorted(int(row["body"]) for batch in batches for row in batch)


def test_messages_are_settled_when_spark_requests_the_next_offset(broker: Broker, start: Any) -> None:
    """Batches are as large as the trigger allows; the last one is settled too, although none follows."""
    broker.fill("in", range(ROWS))
    query = start()
    batches = query.run()
    assert [len(batch) for batch in batches] == [200, 200, 100]
    assert numbers(batches) == list(range(ROWS))
    assert all(row["reservation_id"] for batch in batches for row in batch)
    assert broker.active("in") == 0


def test_batch_can_be_read_again_until_it_is_done(broker: Broker, start: Any) -> None:
    """Retries, speculation and a second action read the same; no other consumer gets these messages."""
    broker.fill("in", range(ROWS))
    query = start(maxMessagesPerTrigger=ROWS)
    assert query.plan()
    first, second = query.read(), query.read()
    assert first == second
    assert numbers([first]) == list(range(ROWS))
    assert broker.take("in", 1) == []


def test_batch_size_follows_limits_and_bytes(broker: Broker, start: Any) -> None:
    """Spark's limit overrides the option; a trigger for all messages gets all."""
    broker.fill("in", range(ROWS))
    assert [len(batch) for batch in start(maxMessagesPerTrigger=7).run(limits.ReadMaxRows(250))] == [250, 250]
    broker.fill("in", range(ROWS))
    assert [len(batch) for batch in start(maxBytesPerTrigger=1).run(limits.ReadAllAvailable())] == [ROWS]
    broker.fill("in", range(ROWS))
    sizes = [
        len(batch) for batch in start(maxBytesPerTrigger="4k", maxMessagesPerTrigger=ROWS).run(limits.ReadMaxRows(ROWS))
    ]
    assert len(sizes) > 2
    assert sum(sizes) == ROWS


def test_available_now_ends_at_the_messages_of_its_start(broker: Broker, start: Any) -> None:
    """The next run reads the messages that arrive during the run."""
    broker.fill("in", range(ROWS))
    query = start()
    query.reader.prepareForTriggerAvailableNow()
    batches = []
    while query.plan():
        broker.fill("in", range(1000, 1010))
        batches.append(query.read())
        query.commit()
    assert numbers(batches) == list(range(ROWS))
    assert broker.active("in") == 10 * len(batches)


def test_offset_is_unchanged_without_new_messages(broker: Broker, start: Any) -> None:
    """The offset's text must be equal, or Spark would run empty batches for ever; the broker waits for new messages."""
    query = start(maxWaitMs=50)
    begin = query.start
    assert query.reader.latestOffset(begin, limits.ReadMaxRows(10)) == begin
    assert not query.plan()
    broker.fill("in", range(3))
    assert numbers(query.run()) == [0, 1, 2]


def test_new_consumer_can_begin_behind_existing_messages(broker: Broker, start: Any) -> None:
    """The start is decided once, at the first start of the consumer; a restart before the first batch keeps it."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    assert not start(logs, consumer="late", startingOffsets="latest").plan()
    broker.fill("in", range(10, 15))
    assert numbers(start(logs, consumer="late", startingOffsets="latest").run()) == list(range(10, 15))


def test_restart_continues_at_the_end_of_the_logs(broker: Broker, start: Any) -> None:
    """A run may stop before it logs an offset, ends a batch or plans the next: nothing is lost or duplicated."""
    broker.fill("in", range(ROWS))
    logs: tuple[list[str], list[int]] = ([], [])
    seen = []
    lost = start(logs)
    lost.reader.latestOffset(lost.start, None)  # reserved but not logged
    logged = start(logs)
    assert logged.plan()
    first = logged.read()  # logged, not done
    replayed = start(logs)
    assert replayed.plan()
    again = replayed.read()
    key = "sequence_number"
    assert sorted(row[key] for row in again) == sorted(row[key] for row in first)
    seen.append(again)
    replayed.commit()  # done, not settled
    assert broker.active("in") == ROWS
    seen += start(logs).run()
    assert numbers(seen) == list(range(ROWS))
    assert broker.active("in") == 0


def test_older_run_is_fenced(broker: Broker, start: Any) -> None:
    """By a newer run, or by another query with the same consumer; the error explains how to run two."""
    broker.fill("in", range(ROWS))
    older = start(consumer="c")
    assert older.plan()
    newer = start(consumer="c")
    batches = newer.run()
    for call in (older.tasks, lambda: older.reader.latestOffset(older.start, None)):
        with pytest.raises(ConsumerTakenError, match="option consumer"):
            call()
    assert numbers(batches) == list(range(ROWS))


def test_two_consumers_share_the_messages(broker: Broker, start: Any) -> None:
    """Consumers compete: each message goes to one of them."""
    broker.fill("in", range(ROWS))
    one, two = start(consumer="one"), start(consumer="two")
    batches = []
    while one.plan() | two.plan():
        for query in (one, two):
            if len(query.offsets) > len(query.commits):
                batches.append(query.read())
                query.commit()
    assert numbers(batches) == list(range(ROWS))


def test_checkpoint_of_another_entity_is_refused(broker: Broker, start: Any) -> None:
    """A checkpoint of a recreated queue, and of another consumer."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    start(logs).run()
    with pytest.raises(ForeignCheckpointError, match="option consumer"):
        start(logs, consumer="other").plan()
    broker.recreate("in")
    with pytest.raises(ForeignCheckpointError, match="deleted and created again"):
        start(logs).plan()


def test_checkpoint_that_was_rolled_back_is_detected(broker: Broker, start: Any) -> None:
    """Its messages are settled; the query fails, or continues behind them if failOnDataLoss is false."""
    broker.fill("in", range(ROWS))
    logs: tuple[list[str], list[int]] = ([], [])
    start(logs).run()
    old: tuple[list[str], list[int]] = (logs[0][:1], logs[1][:1])
    with pytest.raises(CheckpointBehindBrokerError, match="failOnDataLoss"):
        start(old).plan()
    unfinished: tuple[list[str], list[int]] = (logs[0][:2], logs[1][:1])
    with pytest.raises(CheckpointBehindBrokerError, match="failOnDataLoss"):
        start(unfinished).tasks()
    broker.fill("in", range(ROWS, ROWS + 10))
    for behind in (old, unfinished):
        batches = start(behind, failOnDataLoss=False).run()
        assert numbers(batches) == (list(range(ROWS, ROWS + 10)) if behind is old else [])


def test_lock_is_renewed_while_a_batch_runs(broker: Broker, start: Any) -> None:
    """The lock lasts beyond its first end."""
    broker.fill("in", range(10))
    query = start(lockDuration="2s")
    assert query.plan()
    first_end = broker.lock_end("in")
    broker.wait_until(lambda: broker.lock_end("in") > first_end + 2000)
    assert broker.take("in", 1) == []
    assert numbers([query.read()]) == list(range(10))


def test_lock_that_was_lost_fails_the_task(broker: Broker, start: Any) -> None:
    """A restart locks the remaining messages again; messages taken by others are reported, not read."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    query = start(logs, lockDuration="1s")
    assert query.plan()
    tasks = query.tasks()
    query.stop()  # ends the lock renewal
    broker.wait_for_expiry("in")
    taken = broker.take("in", 3)
    assert len(taken) == 3
    with pytest.raises(MessageLockLostError, match="not live any more"):
        list(query.reader.read(tasks[0]))
    again = start(logs)
    assert sorted(numbers([again.read()]) + taken) == list(range(10))
    assert again.reader.reportLatestOffset()["missingMessages"] == 3
    again.commit()
    assert not again.plan()
    assert broker.active("in") == 0


def test_progress_shows_the_remaining_messages(broker: Broker, start: Any) -> None:
    """The latest offset, which Spark shows unchanged, has the numbers of active and reserved messages."""
    broker.fill("in", range(ROWS))
    query = start()
    assert query.reader.reportLatestOffset() is None
    query.plan()
    report = json.loads(json.dumps(query.reader.reportLatestOffset()))
    assert (report["activeMessages"], report["reservedMessages"]) == (ROWS, 200)
    assert report["messagesBehind"]["min"] <= report["messagesBehind"]["avg"] <= report["messagesBehind"]["max"]
    assert report["messagesBehind"]["avg"] * 16 == ROWS
    assert 0 <= report["oldestMessageAgeSeconds"] < 600
    assert (report["deadLetterMessages"], report["stagedBytes"]) == (0, 0)
    broker.dead_letter("in", 3, "because")
    broker.client.stage("out", "s", pa.table({"body": ["x" * 100]}))
    later = query.reader.reportLatestOffset()
    assert later["deadLetterMessages"] == 3
    assert later["stagedBytes"] > 100


def test_progress_of_an_empty_queue(start: Any) -> None:
    """No oldest message, and nothing behind."""
    query = start()
    assert not query.plan()
    report = query.reader.reportLatestOffset()
    assert report["oldestMessageAgeSeconds"] is None
    assert report["messagesBehind"] == {"min": 0, "avg": 0, "max": 0}


def test_batch_waits_for_messages(broker: Broker, start: Any) -> None:
    """Until there are enough, until the delay has passed, or if the query ends with what is there."""
    broker.fill("in", range(10))
    patient = start(minMessagesPerTrigger=20, maxTriggerDelay="1h")
    assert not patient.plan()
    broker.fill("in", range(10, 20))
    assert patient.plan()
    assert len(patient.read()) == 20
    patient.commit()
    broker.fill("in", range(5))
    assert not patient.plan()
    patient.reader.prepareForTriggerAvailableNow()
    assert patient.plan()
    hasty = start(minMessagesPerTrigger=20, maxTriggerDelay="100ms", maxWaitMs=200, consumer="other")
    broker.fill("in", range(5))
    assert hasty.plan()
    with pytest.raises(ValueError, match="minMessagesPerTrigger is above maxMessagesPerTrigger"):
        start(minMessagesPerTrigger=300)


def test_entity_that_cannot_be_reserved_is_refused(start: Any) -> None:
    """A missing one, and a limit of sessions without sessions."""
    with pytest.raises(ValueError, match="does not require sessions"):
        start(maxSessionsPerTrigger=5).plan()
    with pytest.raises(MessagingEntityNotFoundError):
        start(queue="none").plan()
