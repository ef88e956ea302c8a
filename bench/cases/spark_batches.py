# SPDX-License-Identifier: Apache-2.0
"""Cost of a near-empty micro-batch: one message in each batch, from queue to queue and exactly once.

Beside it the same stream through a source and a sink in Python that do nothing, so the difference is what the queue
adds to Spark's own cost. Both run their batches one after the other, as fast as Spark does.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import oxbus
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from oxbus.spark import read_stream
from targets import NOTHING, OURS

from cases import spark_nothing
from cases.case import expect
from cases.spark_paths import session

if TYPE_CHECKING:
    from collections.abc import Callable

BATCHES = 40
WHOLE = "triggerExecution"
BATCHES_LEAST = 10
_FIRST = 8
"""Batches that do not count: workers start and plans are compiled."""


@dataclass
class Progress:
    """Spark's progress reports on the batches of a stream."""

    batches: list[Any]
    wanted: int

    def check(self) -> None:
        """Every batch has its row."""
        rows = [batch["numInputRows"] for batch in self.batches if batch["numInputRows"]]
        expect("rows of the batches", rows, [1] * self.wanted)

    def milliseconds(self) -> dict[str, float]:
        """Medians of what a batch takes, and its parts."""
        settled = [batch["durationMs"] for batch in self.batches if batch["numInputRows"]][_FIRST:]
        return {part: median(batch[part] for batch in settled) for part in settled[0]}


def batch_ms(run: Callable[[int], Progress], batches: int) -> float:
    """Milliseconds of a batch, the median of one run."""
    progress = run(batches)
    progress.check()
    return progress.milliseconds()[WHOLE]


def _through_queues(batches: int) -> Progress:
    with (
        tempfile.TemporaryDirectory() as directory,
        oxbus.Namespace(f"{directory}/bus", durability="os") as namespace,
        serve(namespace) as server,
    ):
        admin = ServiceBusAdministrationClient(namespace)
        for queue in ("q", "out"):
            admin.create_queue(queue, enable_partitioning=True)
        with oxbus.ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
            for number in range(batches):
                sender.send_messages(oxbus.ServiceBusMessage(bytes(1024), partition_key=f"key-{number}"))
        options = {"connectionString": server.connection_string, "queue": "q", "maxMessagesPerTrigger": "1"}
        rows = read_stream(session(), options).select("body", "partition_key")
        sink = rows.writeStream.format("oxbus").options(connectionString=server.connection_string, queue="out")
        progress = _run(sink, directory, batches)
        expect("messages", admin.get_queue_runtime_properties("out").total_message_count, batches)
        expect("messages left", admin.get_queue_runtime_properties("q").total_message_count, 0)
        return progress


def _through_nothing(batches: int) -> Progress:
    source = session().readStream.format(spark_nothing.NAME).options(rows=batches, batchRows=1, bodyBytes=1024)
    with tempfile.TemporaryDirectory() as directory:
        return _run(source.load().writeStream.format(spark_nothing.NAME), directory, batches)


def _run(sink: Any, directory: str, batches: int) -> Progress:
    query = sink.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return Progress(list(query.recentProgress), batches)


CONTENDERS: dict[str, Callable[[int], Progress]] = {OURS: _through_queues, NOTHING: _through_nothing}
