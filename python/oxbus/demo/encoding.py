# SPDX-License-Identifier: Apache-2.0
"""Placing and encoding the flights in Spark.

Spark computes each flight's partition with the Catalyst expression, moves all flights of a partition into one task, and
sorts them by their position in the file; its Python workers encode them.
A task returns Arrow record batches, so the driver forwards columns and never touches a single flight.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from oxbus.demo import bulk_path
from oxbus.demo.encoded import PARTITIONS, SCHEMA, EncodedFlights
from oxbus.demo.flights import COLUMNS, FLIGHTS, FLIGHTS_WITHOUT_TAIL_NUMBER, MISSING, write_numbered_csv
from oxbus.spark import partition_id
from oxbus.spark.local import PYTHON_SETTINGS, local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession
    from rich.progress import Progress

__all__ = ["PARTITIONS", "SCHEMA", "encode_flights", "encode_with_spark", "pack", "placed_flights"]

ROWS_PER_BATCH = 4096


def encode_with_spark(progress: Progress) -> EncodedFlights:
    """Read the flights, place and encode them in Spark.

    Raises:
        InputMissingError: The flights are not installed.
        SparkDidNotStartError: Spark or Java is missing.
    """
    with tempfile.TemporaryDirectory(prefix="oxbus-demo-") as directory:
        numbered_csv = Path(directory, "flights.csv")
        write_numbered_csv(numbered_csv)
        starting = progress.add_task("starting Spark", total=None)
        with local_session("oxbus demo", settings=PYTHON_SETTINGS) as spark:
            progress.update(starting, total=1, completed=1)
            encoding = progress.add_task("placing and encoding in Spark", total=FLIGHTS)
            started = time.perf_counter()
            batches = encode_flights(spark, numbered_csv, lambda rows: progress.advance(encoding, rows))
            seconds = time.perf_counter() - started
            loading = progress.add_task("loading in bulk and reading back", total=None)
            bulk = bulk_path.run_scenario(placed_flights(spark, numbered_csv), Path(directory, "bus"))
            progress.update(loading, total=1, completed=1)
    return EncodedFlights(batches, FLIGHTS, FLIGHTS_WITHOUT_TAIL_NUMBER, seconds, bulk)


def encode_flights(
    spark: SparkSession, numbered_csv: Path, on_rows: Callable[[int], object] = lambda _rows: None
) -> list[pa.RecordBatch]:
    """Place and encode every flight of the file.

    Args:
        spark: The session.
        numbered_csv: The file that `flights.write_numbered_csv` wrote.
        on_rows: Called with the size of each batch when it reaches the driver.

    Returns:
        Batches of `SCHEMA`; the flights of one aircraft are in the order of the file.
    """
    batches = []
    aligned = placed_flights(spark, numbered_csv)
    for packed in aligned.rdd.mapPartitions(pack).toLocalIterator(prefetchPartitions=True):
        batch = pa.ipc.open_stream(packed).read_next_batch()
        batches.append(batch)
        on_rows(batch.num_rows)
    return batches


def placed_flights(spark: SparkSession, numbered_csv: Path) -> DataFrame:
    """Return the flights with the partition that Spark computes, one task per partition, in the order of the file."""
    flights = (
        spark.read.schema(", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        .option("header", "true")
        .option("nullValue", MISSING)
        .option("mode", "FAILFAST")
        .csv(str(numbered_csv))
    )
    placed = flights.withColumn("spark_partition", partition_id("tailnum", PARTITIONS))
    # One task per partition; keyless flights join any task.
    aimed = placed.selectExpr("*", f"coalesce(spark_partition, pmod(flight_id, {PARTITIONS})) AS task")
    return aimed.repartitionById(PARTITIONS, "task").drop("task").sortWithinPartitions("flight_id")


def pack(flights: Iterable[Row]) -> Iterator[bytes]:
    """Encode one task's flights; runs in Spark's Python workers."""
    chunk: list[Row] = []
    for flight in flights:
        chunk.append(flight)
        if len(chunk) == ROWS_PER_BATCH:
            yield _as_arrow_stream(chunk)
            chunk = []
    if chunk:
        yield _as_arrow_stream(chunk)


def _as_arrow_stream(flights: list[Row]) -> bytes:
    names = [*COLUMNS]
    tail_number, spark_partition = names.index("tailnum"), len(names)  # the partition was appended last
    dump = json.JSONEncoder(separators=(",", ":")).encode
    batch = pa.record_batch(
        [
            pa.array([f"flight-{flight[0]}" for flight in flights], pa.string()),
            pa.array([flight[tail_number] for flight in flights], pa.string()),
            pa.array([dump(dict(zip(names, flight, strict=False))).encode() for flight in flights], pa.binary()),
            pa.array([flight[spark_partition] for flight in flights], pa.int32()),
        ],
        schema=SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
