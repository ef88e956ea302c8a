# SPDX-License-Identifier: Apache-2.0
"""The failure matrix: the broker is away for a while, or is killed at random moments, and so is the driver.

`make spark-chaos` runs the last two tests with 50 restarts, and with 10,000 sessions.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from broker_process import BrokerProcess, Restarts
from oxbus.management import ServiceBusAdministrationClient
from pyspark.errors import PySparkException
from queries import LIMIT_SECONDS, SENT, forward, messages, until_done
from spark_versions import since_4_2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from spark_broker import Broker

RESTARTS = int(os.environ.get("OXBUS_RESTARTS", "2"))
SESSIONS = int(os.environ.get("OXBUS_SESSIONS", "100"))
SEED = int(os.environ.get("OXBUS_SEED", "1"))
EACH = 30
ROWS = 500
AWAY_SECONDS = 2.0
DRIVER = Path(__file__).parents[1] / "kit" / "session_driver.py"


@contextlib.contextmanager
def away(broker: Broker, seconds: float = AWAY_SECONDS) -> Iterator[None]:
    """Stop the broker for the beginning of the block."""
    broker.stop()
    back = threading.Timer(seconds, broker.start)
    back.start()
    try:
        yield
    finally:
        back.join()


def test_broker_that_is_away_when_a_query_starts(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Its first calls wait: of the source and of the sink."""
    broker.fill("in", range(ROWS))
    with away(broker):
        until_done(forward(messages(spark, broker), broker, tmp_path))
    assert broker.numbers("out") == list(range(ROWS))
    assert broker.active("in") == 0


@pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])
def test_broker_that_is_away_when_a_batch_is_read_or_written(
    spark: SparkSession, broker: Broker, delivery: str
) -> None:
    """Planning, tasks and the commit wait."""
    broker.fill("in", range(ROWS))
    with away(broker):
        rows = spark.read.format("oxbus").options(**broker.options("in")).load()
        assert rows.count() == ROWS
    with away(broker):
        written = rows.select(*SENT).write.format("oxbus").options(**broker.options("out", delivery=delivery))
        written.mode("append").save()
    assert broker.numbers("out") == list(range(ROWS))


def test_broker_that_stays_away(spark: SparkSession, broker: Broker) -> None:
    """One clear error after the time of the option."""
    options = {"client.retryTimeout": "1s"}
    broker.stop()
    try:
        with pytest.raises(PySparkException, match=r"away for more than 1 seconds.*client\.retryTimeout"):
            spark.read.format("oxbus").options(**broker.options("in", **options)).load().count()
    finally:
        broker.start()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker in its own process."""
    broker = BrokerProcess(tmp_path / "served")
    yield broker
    broker.kill()


def create(served: BrokerProcess, *queues: str, **options: Any) -> None:
    """Create partitioned queues."""
    with ServiceBusAdministrationClient.from_connection_string(served.connection_string) as admin:
        for queue in queues:
            admin.create_queue(queue, enable_partitioning=True, **options)


def contents(served: BrokerProcess, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue, in the order of its partitions."""
    found: list[dict[str, Any]] = []
    with served.client() as client:
        for partition in range(client.describe(queue)["partitions"]):
            number: int | None = partition << 48
            while number is not None:
                page, number = client.peek(queue, partition, number, columns=["body", "session_id"])
                found += pa.RecordBatchReader.from_stream(page).read_all().to_pylist()
    return found


@since_4_2
def test_broker_that_is_killed_at_random_moments(spark: SparkSession, served: BrokerProcess, tmp_path: Path) -> None:
    """A copy, exactly once, in one run of its query: it never ends with an error."""
    rows = 2_000 * RESTARTS
    create(served, "in", "out")
    with served.client() as client:
        keys = [f"key-{number % 50}" for number in range(rows)]
        client.send("in", pa.table({"body": [str(number) for number in range(rows)], "partition_key": keys}))
    options = {"connectionString": served.connection_string}
    source = options | {"queue": "in", "maxMessagesPerTrigger": "500"}
    df = spark.readStream.format("oxbus").options(**source).load().select("body", "partition_key")
    writer = df.writeStream.format("oxbus").options(**options, queue="out")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    restarts = Restarts(served, RESTARTS, SEED, up=1.5, away=2.0)
    try:
        while restarts.left:
            assert query.exception() is None, query.exception()
            time.sleep(0.2)
        restarts.end()
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        restarts.end()
        query.stop()
    found = sorted(int(message["body"]) for message in contents(served, "out"))
    assert found == list(range(rows))


@since_4_2
def test_sessions_through_kills_of_driver_and_broker(
    served: BrokerProcess, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    """Per session all messages, in order, once."""
    create(served, "in", "out", requires_session=True)
    with served.client() as client:
        for number in range(EACH):
            ids = [f"s{session}" for session in range(SESSIONS)]
            client.send("in", pa.table({"body": [str(number)] * SESSIONS, "session_id": ids}))
    options = {"connectionString": served.connection_string}
    pids = tmp_path / "pids"
    given = {
        "pids": str(pids),
        "checkpoint": str(tmp_path / "checkpoint"),
        "source": options
        | {"queue": "in", "consumer": "c", "maxMessagesPerTrigger": str(max(500, SESSIONS * EACH // 20))},
        "sink": options | {"queue": "out"},
    }
    chance = random.Random(SEED)
    restarts = Restarts(served, 10 * RESTARTS, SEED, up=6.0, away=2.0)
    kills = runs = 0
    try:
        while True:
            runs += 1
            driver = subprocess.Popen([sys.executable, DRIVER, json.dumps(given)], stderr=subprocess.PIPE)
            try:
                # A start of Spark takes seconds, so that a kill falls into all of a run.
                _, errors = driver.communicate(timeout=chance.uniform(4, 20) if kills < RESTARTS else LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                kills += 1
                for pid in pids.read_text().split() if pids.exists() else []:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                driver.kill()
                driver.communicate()
                continue
            assert driver.returncode == 0, errors.decode()[-3000:]
            break
    finally:
        restarts.end()
    found: dict[str, list[int]] = defaultdict(list)
    for message in contents(served, "out"):
        found[message["session_id"]].append(int(message["body"]))
    assert len(found) == SESSIONS
    assert all(numbers == list(range(EACH)) for numbers in found.values())
    with served.client() as client:
        assert client.describe("in")["active_messages"] == 0
        assert [stage for stage in client.stages() if stage["batch"] is None] == []
    record_property("runs, kills of the driver, kills of the broker", (runs, kills, 10 * RESTARTS - restarts.left))
