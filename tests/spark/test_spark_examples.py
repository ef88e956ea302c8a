# SPDX-License-Identifier: Apache-2.0
"""The programs in `examples/spark` work on all real flights."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import oxbus.spark
import pytest
from oxbus.demo.flights import FLIGHTS
from prometheus_client import CollectorRegistry
from queries import forward, messages

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
sys.path.insert(0, str(EXAMPLES))

from bulk import load_by_aircraft  # noqa: E402 (the path of the examples is set above)
from by_session import COLUMNS, SETTINGS, Flights, follow  # noqa: E402
from dead_letters import analyse  # noqa: E402
from deduplication import send_twice  # noqa: E402
from enrichment import enrich_despite_a_kill  # noqa: E402
from prometheus_listener import PrometheusListener  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from spark_broker import Broker

CANCELLED = {"EWR": 3239, "JFK": 1863, "LGA": 3153}
"""Flights of the year without a departure, by origin."""


AIRCRAFT = 4043
"""Number of different tail numbers of the year."""


def test_bulk_load_of_all_flights(spark: SparkSession, tmp_path: Path) -> None:
    """Each flight is stored once, with its aircraft."""
    found = load_by_aircraft(spark, tmp_path, FLIGHTS)
    assert found == {"flights": FLIGHTS, "aircraft": AIRCRAFT, "misplaced": 0}


def test_dead_letters_of_all_flights(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Exactly the cancelled flights are dead letters."""
    broker.create("flights")
    assert analyse(spark, broker.connection_string, tmp_path, FLIGHTS) == CANCELLED
    assert broker.active("flights") == 0


def test_duplicates_of_all_flights(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each flight is kept once."""
    broker.create("flights", requires_duplicate_detection=True)
    assert send_twice(spark, broker.connection_string, tmp_path, FLIGHTS) == FLIGHTS


def test_enrichment_of_all_flights_survives_a_kill(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each flight is enriched once, although the driver is killed during the work."""
    broker.create("flights", "enriched")
    output = enrich_despite_a_kill(spark, broker.connection_string, tmp_path, FLIGHTS)
    assert "now all 336,776 are enriched once" in output


def test_flights_by_session(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Each aircraft has all its flights of January's first days, in order."""
    broker.create("flights", requires_session=True)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        found = follow(spark, broker.connection_string, tmp_path, 4_000)
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)
    with_aircraft = 3_994
    assert sum(found.values()) == with_aircraft
    assert broker.active("flights") == 0


def test_by_session_says_what_is_missing(spark: SparkSession, broker: Broker) -> None:
    """A column, and the state store."""
    broker.create("flights", requires_session=True)
    rows = oxbus.spark.read_stream(spark, broker.options("flights"))
    with pytest.raises(ValueError, match="column sequence_number is missing"):
        oxbus.spark.by_session(rows.select("session_id"), Flights(), COLUMNS)
    with pytest.raises(ValueError, match=r"set spark\.sql\.streaming\.stateStore\.providerClass"):
        oxbus.spark.by_session(rows, Flights(), COLUMNS)


def test_progress_in_prometheus(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The gauges have what the progress says."""
    registry = CollectorRegistry()
    listener = PrometheusListener(registry)
    spark.streams.addListener(listener)
    broker.fill("in", range(500))
    try:
        query = forward(messages(spark, broker), broker, tmp_path).queryName("copy").start()
        query.processAllAvailable()
        value = functools.partial(registry.get_sample_value, labels={"query": "copy"})
        broker.wait_until(lambda: value("oxbus_query_rows_total") == 500)
        broker.wait_until(lambda: value("oxbus_query_active_messages") is not None)
        assert value("oxbus_query_missing_messages") == 0
        behind = {"query": "copy", "over": "max"}

        def is_shown() -> bool:
            shown = json.loads(query.lastProgress.sources[0].latestOffset)["messagesBehind"]["max"]
            return bool(registry.get_sample_value("oxbus_query_messages_behind", behind) == shown)

        broker.wait_until(is_shown)
        assert value("oxbus_query_failures_total") is None
        query.stop()
    finally:
        spark.streams.removeListener(listener)
