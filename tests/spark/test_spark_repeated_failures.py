# SPDX-License-Identifier: Apache-2.0
"""A batch that always fails: the query ends, dead-letters the batch, or halves it until the bad messages are alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from driven_stream import Query
from oxbus.spark.source.repeated_failures import REASON, BatchFailedRepeatedlyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_broker import Broker

pytest.importorskip("pyspark.sql.streaming.datasource")  # needs PySpark 4.2

ROWS = 400


class Supervised:
    """A query that something starts again each time it ends with an error."""

    def __init__(self, broker: Broker, bad: set[int], **options: object) -> None:
        self.broker = broker
        self.bad = bad
        self.options = broker.options("in", maxWaitMs=0, consumer="c", **options)
        self.logs: tuple[list[str], list[int]] = ([], [])
        self.processed: list[int] = []
        self.starts = 0

    def start(self) -> bool:
        """Run batches until one fails; return whether there is nothing left."""
        self.starts += 1
        query = Query(self.options, *self.logs)
        try:
            while query.plan():
                numbers = [int(row["body"]) for row in query.read()]
                if self.bad & set(numbers):
                    return False
                self.processed += numbers
                query.commit()
            return True
        finally:
            query.stop()

    def run(self, starts_max: int = 200) -> None:
        """Start it until nothing is left."""
        while not self.start():
            assert self.starts < starts_max


def dead(broker: Broker, queue: str = "in") -> dict[int, tuple[str, str]]:
    """The dead letters by number: reason and description."""
    messages = broker.messages(f"{queue}/$deadletterqueue")
    shown = ("dead_letter_reason", "dead_letter_error_description")
    return {int(it["body"]): (it[shown[0]], it[shown[1]]) for it in messages}


def test_restarts_alone_dead_letter_nothing(broker: Broker) -> None:
    """More starts than a message has deliveries: all messages are still there, and none is charged."""
    broker.fill("in", range(ROWS))
    query = Supervised(broker, {7}, maxBatchFailures=100)
    for _ in range(25):
        assert not query.start()
    assert dead(broker) == {}
    query.bad = set()
    query.run()
    assert sorted(query.processed) == list(range(ROWS))


def test_fail_names_the_batch(broker: Broker) -> None:
    """The error says what to do; a higher limit tries again, and nothing was lost."""
    broker.fill("in", range(ROWS))
    query = Supervised(broker, {7}, maxBatchFailures=3)
    for _ in range(3):
        assert not query.start()
    for _ in range(2):
        with pytest.raises(
            BatchFailedRepeatedlyError, match=r"batch 1 of consumer `c` of `in` .*: 400; .* maxBatchFailures"
        ):
            query.start()
    query.bad = set()
    query.options |= {"maxBatchFailures": "10"}
    query.run()
    assert sorted(query.processed) == list(range(ROWS))
    assert dead(broker) == {}


def test_dead_letter_batch(broker: Broker) -> None:
    """The whole batch goes, with a reason, and the query continues with the next one."""
    broker.fill("in", range(ROWS))
    query = Supervised(broker, {7}, maxBatchFailures=2, onRepeatedFailure="deadLetterBatch", maxMessagesPerTrigger=100)
    query.run()
    letters = dead(broker)
    assert len(letters) == 100
    assert {reason for reason, _ in letters.values()} == {REASON}
    assert "2 starts" in letters[7][1]
    assert sorted([*query.processed, *letters]) == list(range(ROWS))
    assert broker.active("in") == 0


@pytest.mark.parametrize("bad", [{0}, {ROWS - 1}, {7, 8}, {3, 120, 399}, set(range(0, ROWS, 100))])
def test_bisect_finds_the_bad_messages(broker: Broker, bad: set[int]) -> None:
    """Only those are dead-lettered; all others are processed once."""
    broker.fill("in", range(ROWS))
    query = Supervised(broker, bad, maxBatchFailures=2, onRepeatedFailure="bisect")
    query.run()
    assert set(dead(broker)) == bad
    assert sorted(query.processed) == sorted(set(range(ROWS)) - bad)
    assert broker.active("in") == 0
    # Each bad message costs a halving of what is left of its batch, and the failures before the first.
    assert query.starts <= 3 + len(bad) * (ROWS.bit_length() + 3)


def test_bisect_keeps_sessions_in_order(broker: Broker) -> None:
    """The first messages of a session stay in the batch, the others come later."""
    broker.create("sessions", requires_session=True)
    order = [(number, number % 10) for number in range(200)]
    table = {"body": [str(number) for number, _ in order], "session_id": [f"s{session}" for _, session in order]}
    broker.client.send("sessions", pa.table(table))
    query = Supervised(broker, {57}, maxBatchFailures=1, onRepeatedFailure="bisect")
    query.options |= {"queue": "sessions"}
    query.run()
    assert set(dead(broker, "sessions")) == {57}
    assert sorted(query.processed) == [number for number in range(200) if number != 57]
    for session in range(10):
        mine = [number for number in query.processed if number % 10 == session]
        assert mine == sorted(mine)


@pytest.fixture
def halved(broker: Broker) -> Callable[[], Any]:
    """A query that has halved its batch once, with ten messages left of twenty."""
    broker.fill("in", range(20))

    def halve() -> Any:
        query = Supervised(broker, set(range(20)), maxBatchFailures=1, onRepeatedFailure="bisect")
        assert not query.start()
        assert not query.start()
        return query

    return halve


def test_a_plan_is_halved_once_in_a_start(broker: Broker, halved: Callable[[], Any]) -> None:
    """Spark may ask for the tasks of a batch several times."""
    query = halved()
    run = Query(query.options, *query.logs)
    sizes = {len(run.read()) for _ in range(3)}
    assert sizes == {5}
    run.stop()
    assert broker.active("in") == 20
