# SPDX-License-Identifier: Apache-2.0
"""Sends every message twice to a queue that detects duplicates and stores each once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flights import active, arguments, broker, flights, scratch, send
from oxbus.bulk import BulkClient
from oxbus.spark.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send_twice(spark: SparkSession, connection_string: str, directory: Path, count: int) -> int:
    """Send each flight twice with the same message id; return the number of messages in the queue."""
    messages = flights(spark, directory, count)
    for _ in range(2):
        send(messages, connection_string, "flights")
    return active(BulkClient(connection_string), "flights")


def main() -> None:
    """Run with a new server and Spark session."""
    given = arguments(__doc__).parse_args()
    options = {"requires_duplicate_detection": True}
    with (
        scratch() as name,
        broker(Path(name, "bus"), "flights", **options) as connection_string,
        local_session("deduplication") as spark,
    ):
        kept = send_twice(spark, connection_string, Path(name), given.flights)
    print(f"sent {2 * given.flights:,} messages; the queue has {kept:,}")
    if kept != given.flights:
        sys.exit("messages were lost or doubled")


if __name__ == "__main__":
    main()
