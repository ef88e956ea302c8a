# SPDX-License-Identifier: Apache-2.0
"""Streams of a queue that requires sessions: whole runs in order, in one task, with the states of the sessions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import oxbus.spark
import pyarrow as pa
import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.spark.source.data_source import OxbusDataSource
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from queries import until_done

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

SESSIONS = 40
EACH = 15
ROWS = SESSIONS * EACH


@pytest.fixture
def sessions(broker: Broker) -> Broker:
    """A broker with the queues `by-session` and `copies`, which require sessions; the first has messages."""
    broker.create("by-session", "copies", requires_session=True)
    fill(broker, EACH)
    return broker


def fill(broker: Broker, each: int, first: int = 0) -> None:
    """Send numbered messages to all sessions, in turn."""
    order = [(number, session) for number in range(first, first + each) for session in range(SESSIONS)]
    bodies, ids = [str(number) for number, _ in order], [f"s{session}" for _, session in order]
    broker.client.send("by-session", pa.table({"body": bodies, "session_id": ids}))


def stream(spark: SparkSession, broker: Broker, **more: object) -> DataFrame:
    """The messages of `by-session` as a stream."""
    options = broker.options(**({"queue": "by-session", "consumer": "c"} | more))
    return spark.readStream.format("oxbus").options(**options).load()


def numbers(broker: Broker, queue: str) -> dict[str, list[int]]:
    """The numbers of a queue by session, in the order of the queue."""
    found: dict[str, list[int]] = defaultdict(list)
    for message in broker.messages(queue):
        found[message["session_id"]].append(int(message["body"]))
    return dict(found)


EXPECTED = {f"s{session}": list(range(EACH)) for session in range(SESSIONS)}


@pytest.mark.parametrize("limit", [{"maxMessagesPerTrigger": 101}, {"maxSessionsPerTrigger": 7}, {"minPartitions": 8}])
def test_copy_keeps_each_session_in_order(
    spark: SparkSession, sessions: Broker, tmp_path: Path, limit: dict[str, object]
) -> None:
    """From queue to queue, exactly once, whatever the size of the batches."""
    rows = stream(spark, sessions, **limit).select("body", "session_id", "message_id")
    writer = rows.writeStream.format("oxbus").options(**sessions.options("copies"))
    query = until_done(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert numbers(sessions, "copies") == EXPECTED
    assert sessions.active("by-session") == 0
    fill(sessions, 5, first=EACH)
    until_done(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert numbers(sessions, "copies") == {session: list(range(EACH + 5)) for session in EXPECTED}
    assert query.exception() is None


def test_a_session_is_in_one_task(spark: SparkSession, sessions: Broker, tmp_path: Path) -> None:
    """In order, although there may be more tasks than partitions."""
    seen: list[tuple[str, int, int]] = []

    def handle(batch: DataFrame, _number: int) -> None:
        tasks = batch.select("session_id", sf.col("body").cast("string").cast("int"), sf.spark_partition_id())
        seen.extend(tuple(row) for row in tasks.collect())

    query = stream(spark, sessions, minPartitions=64, maxPartitions=64).writeStream.foreachBatch(handle)
    until_done(query.option("checkpointLocation", str(tmp_path)))
    assert len(seen) == ROWS
    tasks: dict[str, set[int]] = defaultdict(set)
    for session, _, task in seen:
        tasks[session].add(task)
    assert all(len(found) == 1 for found in tasks.values())
    assert len(set.union(*tasks.values())) > 1
    in_order: dict[str, list[int]] = defaultdict(list)
    for session, number, _ in seen:
        in_order[session].append(number)
    assert in_order == EXPECTED


def totals(sessions: Broker) -> Callable[[DataFrame, int], None]:
    """A handler that keeps the sum of a session in its state."""
    options = {"connectionString": sessions.connection_string}

    def add_up(rows: pd.DataFrame) -> pd.DataFrame:
        """The old state and the numbers of a session, added up."""
        before = rows["session_state"].iloc[0]
        total = (0 if before is None else int(before)) + rows["body"].map(int).sum()
        return rows[["session_id"]].iloc[:1].assign(total=str(total))

    def handle(batch: DataFrame, _number: int) -> None:
        kept = batch.persist()
        added = kept.groupBy("session_id").applyInPandas(add_up, "session_id string, total string")
        oxbus.spark.settle(kept.join(added, "session_id"), "complete", options, session_state="total")

    return handle


def states(broker: Broker) -> dict[str, int | None]:
    """The states of all sessions, as receivers see them."""
    found: dict[str, int | None] = {}
    with ServiceBusClient(broker.namespace) as client:
        for session in EXPECTED:
            with client.get_queue_receiver("by-session", session_id=session) as receiver:
                assert receiver.session is not None
                state = receiver.session.get_state()
                found[session] = None if state is None else int(bytes(state))
    return found


def test_states_are_read_and_set(spark: SparkSession, sessions: Broker, tmp_path: Path) -> None:
    """Over several batches; each message counts once, although the query fails after it settled some."""
    handle = totals(sessions)
    fails = {1}

    def failing(batch: DataFrame, number: int) -> None:
        handle(batch, number)
        if number in fails:
            fails.remove(number)
            raise RuntimeError("after the messages were settled")

    rows = stream(spark, sessions, maxMessagesPerTrigger=150, includeSessionState=True)
    query = rows.writeStream.foreachBatch(failing).option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match="after the messages were settled"):
        until_done(query)
    until_done(query)
    assert sessions.active("by-session") == 0
    assert states(sessions) == dict.fromkeys(EXPECTED, sum(range(EACH)))


def test_state_by_the_schema_alone(spark: SparkSession, sessions: Broker, tmp_path: Path) -> None:
    """Named columns are all that is read; a browsing stream has no states."""
    with ServiceBusClient(sessions.namespace) as client:
        with client.get_queue_receiver("by-session", session_id="s3") as receiver:
            assert receiver.session is not None
            receiver.session.set_state(b"three")
        client.get_queue_sender("by-session").send_messages(ServiceBusMessage("x", session_id="s3"))
    columns = "session_state binary, session_id string"
    # The browsing one first: it settles nothing.
    for mode, expected in (("peek", {None}), ("peekLock", {b"three"})):
        options = sessions.options("by-session", receiveMode=mode)
        rows = spark.readStream.format("oxbus").options(**options).schema(columns).load()
        found: list[Any] = []

        def keep(batch: DataFrame, _number: int, found: list[Any] = found) -> None:
            found.extend(batch.where("session_id = 's3'").collect())

        until_done(rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / mode)))
        assert {None if row.session_state is None else bytes(row.session_state) for row in found} == expected


@pytest.mark.parametrize(("name", "value"), [("maxSessionsPerTrigger", "5"), ("includeSessionState", "true")])
def test_a_browsing_stream_holds_no_sessions(sessions: Broker, name: str, value: str) -> None:
    """Its options are refused."""
    options = sessions.options("by-session", receiveMode="peek", **{name: value})
    with pytest.raises(ValueError, match=f"{name} has no meaning when browsing"):
        OxbusDataSource(options).streamReader(OxbusDataSource(options).schema())
