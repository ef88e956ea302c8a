# SPDX-License-Identifier: Apache-2.0
"""The programs in `examples/spark` work on all real flights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus.demo.flights import FLIGHTS

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
sys.path.insert(0, str(EXAMPLES))

from bulk import load_by_aircraft  # noqa: E402 (the path of the examples is set above)
from dead_letters import analyse  # noqa: E402
from deduplication import send_twice  # noqa: E402
from enrichment import enrich_despite_a_kill  # noqa: E402

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
