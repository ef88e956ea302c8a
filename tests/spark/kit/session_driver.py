# SPDX-License-Identifier: Apache-2.0
"""A separate driver that copies a queue with sessions to another, until there are no more messages or it is killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from oxbus.spark import register
from oxbus.spark.local import local_session


def main() -> None:
    """Run the stream; the arguments are JSON."""
    given = json.loads(sys.argv[1])
    with local_session("oxbus driver") as spark:
        machine = spark._jvm.java.lang.ProcessHandle.current().pid()
        Path(given["pids"]).write_text(f"{machine} {os.getpid()}")
        register(spark)
        messages = spark.readStream.format("oxbus").options(**given["source"]).load()
        writer = messages.select("body", "session_id", "message_id").writeStream.format("oxbus")
        writer = writer.options(**given["sink"]).option("checkpointLocation", given["checkpoint"])
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
