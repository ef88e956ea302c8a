# SPDX-License-Identifier: Apache-2.0
"""What a near-empty micro-batch costs: one message in each batch, from queue to queue and exactly once.

Beside it the same stream through a source and a sink in Python that do nothing, so the difference is what the queue
adds to Spark's own cost. Both run their batches one after the other, as fast as Spark does.

    PYTHONPATH=bench python -m cases.spark_batches    milliseconds of a batch, part by part
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from statistics import median
from typing import Any

import oxbus
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from oxbus.spark import read_stream

from cases import spark_nothing
from cases.case import expect
from cases.spark_paths import NOTHING, OURS, session

BATCHES = 40
BENCH_ID = "spark_batch/1KiB/1row"
WHOLE = "triggerExecution"
_FIRST = 8
"""Batches that do not count: workers start and plans are compiled."""
_ROUNDS = 3


@dataclass
class Progress:
    """What Spark tells of the batches of a stream."""

    batches: list[Any]

    def check(self) -> None:
        """Every batch has its row."""
        rows = [batch["numInputRows"] for batch in self.batches if batch["numInputRows"]]
        expect("rows of the batches", rows, [1] * BATCHES)

    def milliseconds(self) -> dict[str, float]:
        """Medians of what a batch takes, and its parts."""
        settled = [batch["durationMs"] for batch in self.batches if batch["numInputRows"]][_FIRST:]
        return {part: median(batch[part] for batch in settled) for part in settled[0]}


def batch_ms(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a batch by contender, in turns; the median of each round."""
    return {name: [parts[WHOLE] for parts in found] for name, found in parts_ms(rounds).items()}


def parts_ms(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Milliseconds of the parts of a batch by contender."""
    runs = {OURS: _through_queues, NOTHING: _through_nothing}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in runs if number % 2 == 0 else reversed(runs):
            progress = runs[name]()
            progress.check()
            found[name].append(progress.milliseconds())
    return found


def main() -> None:
    """Print what a batch takes, part by part."""
    for name, rounds in parts_ms(_ROUNDS).items():
        for parts in rounds:
            print(f"{name:20}", parts, flush=True)


def _through_queues() -> Progress:
    with (
        tempfile.TemporaryDirectory() as directory,
        oxbus.Namespace(f"{directory}/bus", durability="os") as namespace,
        serve(namespace) as server,
    ):
        admin = ServiceBusAdministrationClient(namespace)
        for queue in ("q", "out"):
            admin.create_queue(queue, enable_partitioning=True)
        with oxbus.ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
            for number in range(BATCHES):
                sender.send_messages(oxbus.ServiceBusMessage(bytes(1024), partition_key=f"key-{number}"))
        options = {"connectionString": server.connection_string, "queue": "q", "maxMessagesPerTrigger": "1"}
        rows = read_stream(session(), options).select("body", "partition_key")
        sink = rows.writeStream.format("oxbus").options(connectionString=server.connection_string, queue="out")
        progress = _run(sink, directory)
        expect("messages", admin.get_queue_runtime_properties("out").total_message_count, BATCHES)
        expect("messages left", admin.get_queue_runtime_properties("q").total_message_count, 0)
        return progress


def _through_nothing() -> Progress:
    source = session().readStream.format(spark_nothing.NAME).options(rows=BATCHES, batchRows=1, bodyBytes=1024)
    with tempfile.TemporaryDirectory() as directory:
        return _run(source.load().writeStream.format(spark_nothing.NAME), directory)


def _run(sink: Any, directory: str) -> Progress:
    query = sink.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return Progress(list(query.recentProgress))


if __name__ == "__main__":
    main()
