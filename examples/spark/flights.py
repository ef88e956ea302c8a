# SPDX-License-Identifier: Apache-2.0
"""Shared by the examples: flights as messages, a server, and common options."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from typing import TYPE_CHECKING

from oxbus import Namespace
from oxbus.demo.flights import COLUMNS, FLIGHTS, MISSING, write_numbered_csv
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from oxbus.bulk import BulkClient
    from pyspark.sql import DataFrame, SparkSession


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of all examples."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--flights", type=int, default=FLIGHTS, help="how many flights (default: all)")
    return parser


@contextlib.contextmanager
def broker(directory: Path, *queues: str, **options: object) -> Iterator[str]:
    """Serve a namespace with these partitioned queues; yield its connection string."""
    with Namespace(directory, durability="os") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        for queue in queues:
            admin.create_queue(queue, enable_partitioning=True, **options)  # type: ignore[arg-type]
        with serve(namespace) as server:
            yield server.connection_string


def flights(spark: SparkSession, directory: Path, count: int) -> DataFrame:
    """Return the first flights as JSON messages, keyed by tail number; a few flights have none."""
    file = directory / "flights.csv"
    write_numbered_csv(file)
    read = spark.read.schema(", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
    rows = read.option("header", "true").option("nullValue", MISSING).csv(str(file)).where(f"flight_id < {count}")
    return rows.select(
        sf.to_json(sf.struct(*COLUMNS)).alias("body"),
        sf.col("tailnum").alias("partition_key"),
        sf.concat(sf.lit("flight-"), "flight_id").alias("message_id"),
    )


def send(messages: DataFrame, connection_string: str, queue: str) -> None:
    """Send messages to a queue in one atomic commit."""
    target = {"connectionString": connection_string, "queue": queue, "delivery": "exactlyOnce"}
    messages.write.format("oxbus").options(**target).mode("append").save()


def active(client: BulkClient, queue: str) -> int:
    """Return the number of active messages of a queue."""
    return int(client.describe(queue)["active_messages"])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Create a temporary directory for one run."""
    return tempfile.TemporaryDirectory(prefix="oxbus-example-")
