# SPDX-License-Identifier: Apache-2.0
"""The Spark stage of the demo, on the first flights of the real file."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import oxbus
import pyarrow as pa
from oxbus.demo import bulk_path
from oxbus.demo.encoding import PARTITIONS, SCHEMA, encode_flights, placed_flights
from oxbus.demo.flights import COLUMNS, write_numbered_csv

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 3000


def first_flights(tmp_path: Path) -> Path:
    """The first lines of the real file."""
    whole, head = tmp_path / "whole.csv", tmp_path / "head.csv"
    write_numbered_csv(whole)
    with whole.open(encoding="utf-8") as lines, head.open("w", encoding="utf-8") as few:
        few.writelines(line for _, line in zip(range(ROWS + 1), lines, strict=False))
    return head


def test_flights_are_placed_ordered_and_encoded(spark: SparkSession, tmp_path: Path) -> None:
    """Each flight appears once as JSON in its aircraft's partition; the flights of an aircraft keep their order."""
    head = first_flights(tmp_path)
    seen: list[int] = []
    batches = encode_flights(spark, head, seen.append)
    table = pa.Table.from_batches(batches)
    assert table.schema == SCHEMA
    assert sum(seen) == table.num_rows == ROWS

    flights = [json.loads(body) for body in table["body"].to_pylist()]
    assert sorted(flight["flight_id"] for flight in flights) == list(range(ROWS))
    assert list(flights[0]) == list(COLUMNS)
    assert table["message_id"].to_pylist() == [f"flight-{flight['flight_id']}" for flight in flights]
    assert table["partition_key"].to_pylist() == [flight["tailnum"] for flight in flights]
    expected = [None if f["tailnum"] is None else oxbus.partition_id(f["tailnum"], PARTITIONS) for f in flights]
    assert table["spark_partition"].to_pylist() == expected

    by_aircraft: dict[str, list[int]] = {}
    for flight in flights:
        by_aircraft.setdefault(flight["tailnum"], []).append(flight["flight_id"])
    del by_aircraft[None]  # type: ignore[arg-type]
    assert all(earlier < later for ids in by_aircraft.values() for earlier, later in pairwise(ids))


def test_flights_by_the_bulk_path(spark: SparkSession, tmp_path: Path) -> None:
    """All flights are loaded, found and settled, and every check passes."""
    trip = bulk_path.run_scenario(placed_flights(spark, first_flights(tmp_path)), tmp_path / "bus")
    assert trip.rows == ROWS
    assert [check.finding for check in trip.checks if not check.passed] == []
    assert len(trip.checks) == 3
