# SPDX-License-Identifier: Apache-2.0
"""A separate driver: a stream from one queue to another that is killed at some point. The arguments are JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from faulty_sources import DyingSource
from oxbus.spark.local import local_session


def main() -> None:
    """Run the stream until there are no more messages, or until it is killed."""
    given = json.loads(sys.argv[1])
    with local_session("oxbus driver") as spark:
        machine = spark._jvm.java.lang.ProcessHandle.current().pid()
        Path(given["directory"], "pids").write_text(f"{machine} {os.getpid()}")
        spark.dataSource.register(DyingSource)
        messages = spark.readStream.format("oxbus-dying").options(**given["source"]).load()
        kept = messages.select("body", "partition_key", "message_id", "application_properties")
        writer = kept.writeStream.format("oxbus-dying").options(**given["sink"])
        query = writer.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True).start()
        query.awaitTermination()


if __name__ == "__main__":
    main()
