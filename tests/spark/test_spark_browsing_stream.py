# SPDX-License-Identifier: Apache-2.0
"""A browsing stream follows the numbers of each partition and settles nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from driven_stream import Query
from oxbus.spark.source.offsets import ForeignCheckpointError

if TYPE_CHECKING:
    from spark_broker import Broker

ReadMaxRows = pytest.importorskip("pyspark.sql.streaming.datasource").ReadMaxRows  # needs PySpark 4.2

ROWS = 500


def start(broker: Broker, logs: tuple[list[str], list[int]] | None = None, **options: object) -> Query:
    """Start a run of a query that browses `in`."""
    return Query(broker.options("in", receiveMode="peek", maxWaitMs=0, **options), *(logs or ([], [])))


def numbers(batches: list[list[dict[str, Any]]]) -> list[int]:
    """The bodies as numbers, sorted."""
    return sorted(int(row["body"]) for batch in batches for row in batch)


def test_every_message_is_read_once_and_stays(broker: Broker) -> None:
    """In batches up to the limit; later messages are in later batches."""
    broker.fill("in", range(ROWS))
    query = start(broker)
    batches = query.run(ReadMaxRows(200))
    assert [len(batch) for batch in batches] == [200, 200, 100]
    broker.fill("in", range(ROWS, ROWS + 10))
    batches += query.run(ReadMaxRows(200))
    assert numbers(batches) == list(range(ROWS + 10))
    assert broker.active("in") == ROWS + 10
    assert start(broker, maxMessagesPerTrigger=50).run(ReadMaxRows(50))[0] != []


def test_available_now_ends_at_the_messages_of_its_start(broker: Broker) -> None:
    """The next run reads the messages that arrive during the run."""
    broker.fill("in", range(ROWS))
    query = start(broker)
    query.reader.prepareForTriggerAvailableNow()
    broker.fill("in", range(ROWS, ROWS + 10))
    assert numbers(query.run(ReadMaxRows(100))) == list(range(ROWS))


def test_first_batch_is_the_same_after_a_restart(broker: Broker) -> None:
    """Spark asks for the start again, and the answer is the same even if "latest" has moved."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    query = start(broker, logs, startingOffsets="latest")
    begin = query.start
    broker.fill("in", range(10, 15))
    query.offsets.append(json.dumps(query.reader.latestOffset(begin, ReadMaxRows(100))))
    again = start(broker, logs, startingOffsets="latest")
    assert numbers(again.run()) == list(range(10, 15))


def test_range_and_partitions_follow_the_options(broker: Broker) -> None:
    """The options have the same effect as for batch reads."""
    broker.fill("in", range(ROWS))
    wanted = [int(it["body"]) for it in broker.messages("in") if it["partition_id"] in {3, 5}]
    query = start(broker, partitionFilter="3,5")
    assert numbers(query.run()) == sorted(wanted)
    assert query.reader.reportLatestOffset()["messagesBehind"] == {"min": 0, "avg": 0, "max": 0}


def test_settled_messages_are_an_error_on_request(broker: Broker) -> None:
    """With failOnDataLoss the stream fails; without it the stream continues behind them."""
    broker.fill("in", range(20), keys=1)
    logs: tuple[list[str], list[int]] = ([], [])
    query = start(broker, logs, maxMessagesPerTrigger=5)
    assert query.plan(ReadMaxRows(5))
    assert numbers([query.read()]) == list(range(5))
    query.commit()
    broker.take("in", 8)
    strict = start(broker, (list(logs[0]), list(logs[1])), failOnDataLoss=True)
    with pytest.raises(ValueError, match="failOnDataLoss"):
        strict.plan()
    assert numbers(start(broker, logs).run()) == list(range(8, 20))


def test_checkpoint_of_another_entity_is_refused(broker: Broker) -> None:
    """A checkpoint of a recreated queue, and of a settling stream."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    start(broker, logs).run()
    broker.recreate("in")
    with pytest.raises(ForeignCheckpointError, match="deleted and created again"):
        start(broker, logs).plan()
