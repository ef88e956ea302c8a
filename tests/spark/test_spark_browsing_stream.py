# SPDX-License-Identifier: Apache-2.0
"""A stream that browses: it follows the numbers of each partition and settles nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from driven_stream import Query
from oxbus.spark.source.offsets import ForeignCheckpointError

if TYPE_CHECKING:
    from spark_broker import Broker

ReadMaxRows = pytest.importorskip("pyspark.sql.streaming.datasource").ReadMaxRows  # came with PySpark 4.2

ROWS = 500


def start(broker: Broker, logs: tuple[list[str], list[int]] | None = None, **options: object) -> Query:
    """Start a run of a query that browses `in`."""
    return Query(broker.options("in", receiveMode="peek", maxWaitMs=0, **options), *(logs or ([], [])))


def numbers(batches: list[list[dict[str, Any]]]) -> list[int]:
    """The bodies as numbers, sorted."""
    return sorted(int(row["body"]) for batch in batches for row in batch)


def test_everything_is_seen_once_and_stays(broker: Broker) -> None:
    """In batches of at most the limit; what comes later comes later."""
    broker.fill("in", range(ROWS))
    query = start(broker)
    batches = query.run(ReadMaxRows(200))
    assert [len(batch) for batch in batches] == [200, 200, 100]
    broker.fill("in", range(ROWS, ROWS + 10))
    batches += query.run(ReadMaxRows(200))
    assert numbers(batches) == list(range(ROWS + 10))
    assert broker.active("in") == ROWS + 10
    assert start(broker, maxMessagesPerTrigger=50).run(ReadMaxRows(50))[0] != []


def test_available_now_ends_at_what_there_was(broker: Broker) -> None:
    """What comes while it runs is left for the next run."""
    broker.fill("in", range(ROWS))
    query = start(broker)
    query.reader.prepareForTriggerAvailableNow()
    broker.fill("in", range(ROWS, ROWS + 10))
    assert numbers(query.run(ReadMaxRows(100))) == list(range(ROWS))


def test_first_batch_is_the_same_after_a_restart(broker: Broker) -> None:
    """Although "latest" is elsewhere by then: Spark asks for the beginning again."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    query = start(broker, logs, startingOffsets="latest")
    begin = query.start
    broker.fill("in", range(10, 15))
    query.offsets.append(json.dumps(query.reader.latestOffset(begin, ReadMaxRows(100))))
    again = start(broker, logs, startingOffsets="latest")
    assert numbers(again.run()) == list(range(10, 15))


def test_range_and_partitions_are_what_the_options_say(broker: Broker) -> None:
    """As for batches."""
    broker.fill("in", range(ROWS))
    wanted = [int(it["body"]) for it in broker.messages("in") if it["partition_id"] in {3, 5}]
    assert numbers(start(broker, partitionFilter="3,5").run()) == sorted(wanted)


def test_what_others_settled_is_missed_when_asked_for(broker: Broker) -> None:
    """With failOnDataLoss; without it the stream goes on behind it."""
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
    """Of a queue that was deleted and created again, and of a stream that takes."""
    broker.fill("in", range(10))
    logs: tuple[list[str], list[int]] = ([], [])
    start(broker, logs).run()
    broker.recreate("in")
    with pytest.raises(ForeignCheckpointError, match="deleted and created again"):
        start(broker, logs).plan()
