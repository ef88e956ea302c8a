# SPDX-License-Identifier: Apache-2.0
"""A demo of a few made-up flights that kills itself, as a separate process: DIRECTORY [POINT].

A point is a word for a step that is about to start, or happens by half, and the number of such steps before it:
`encode`, `send:1`, `half a send:1`, `sent:1`, `received:2`, `settle:2`, `half a settle:2`, `settled:2`, `tell`.
Without a point the demo runs to its end and prints its report as JSON.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn, Self

import oxbus
import pyarrow as pa
from oxbus.demo import exchange, run
from oxbus.demo.data_directory import DataDirectory
from oxbus.demo.encoded import PARTITIONS, SCHEMA, EncodedFlights
from oxbus.demo.progress_log import DurableProgressLog
from rich.console import Console
from rich.progress import Progress

FLIGHTS, AIRCRAFT, BATCHES = 1200, 40, 4


class Clock:
    """Counts the steps and kills the process at the point."""

    def __init__(self, point: str) -> None:
        self._word, _, times = point.partition(":")
        self._remaining = int(times or 0)
        self._guard = threading.Lock()

    def now(self, word: str) -> bool:
        """Whether the process is at the point."""
        with self._guard:
            if word != self._word:
                return False
            self._remaining -= 1
            return self._remaining == -1

    def tick(self, word: str) -> None:
        """End the process if it is at the point."""
        if self.now(word):
            die()


def die() -> NoReturn:
    """End the process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class Client:
    """Forwards all calls until the process is killed: a client, a sender or a receiver."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)

    def get_queue_sender(self, name: str) -> Client:
        """A sender that may kill the process."""
        return Client(self._inner.get_queue_sender(name), self._clock)

    def get_queue_receiver(self, name: str) -> Client:
        """A receiver that may kill the process."""
        return Client(self._inner.get_queue_receiver(name), self._clock)

    def send_arrow(self, data: pa.RecordBatch) -> Any:
        """Send all rows, or only those for half of the partitions."""
        self._clock.tick("send")
        if self._clock.now("half a send"):
            keys = data["partition_key"].to_pylist()
            early = [key is not None and oxbus.partition_id(key, PARTITIONS) % 2 == 0 for key in keys]
            self._inner.send_arrow(data.filter(pa.array(early)))
            die()
        stored = self._inner.send_arrow(data)
        self._clock.tick("sent")
        return stored

    def receive_arrow(self, count: int, *, max_wait_time: float) -> pa.Table:
        """Receive, and possibly kill the process before returning."""
        table = pa.table(self._inner.receive_arrow(count, max_wait_time=max_wait_time))
        if table.num_rows:
            self._clock.tick("received")
        return table

    def settle_arrow(self, batch: pa.Table, outcome: Any) -> None:
        """Settle all rows, or only every second one."""
        self._clock.tick("settle")
        if self._clock.now("half a settle"):
            self._inner.settle_arrow(batch.take(list(range(0, batch.num_rows, 2))), outcome)
            die()
        self._inner.settle_arrow(batch, outcome)
        self._clock.tick("settled")


def cargo() -> EncodedFlights:
    """Made-up flights as the Spark stage returns them, every thirtieth without a tail number."""
    tails = [None if row % 30 == 0 else f"N{row % AIRCRAFT:05}" for row in range(FLIGHTS)]
    table = pa.table(
        {
            "message_id": [f"flight-{row}" for row in range(FLIGHTS)],
            "partition_key": tails,
            "body": [b'{"flight":%d,"carrier":"UA","origin":"JFK","dest":"SEA"}' % row for row in range(FLIGHTS)],
            "spark_partition": [None if tail is None else oxbus.partition_id(tail, PARTITIONS) for tail in tails],
        },
        schema=SCHEMA,
    )
    return EncodedFlights(table.to_batches(max_chunksize=FLIGHTS // BATCHES), FLIGHTS, tails.count(None))


def main(path: Path, point: str) -> None:
    """Continue the demo in that directory until the point or the end."""
    clock = Clock(point)
    exchange.MESSAGES_PER_RECEIVE = 100
    exchange.QUIET_SECONDS = 0.2

    def encode(_progress: Progress) -> EncodedFlights:
        clock.tick("encode")
        return cargo()

    def make_client(namespace: oxbus.Namespace) -> Any:
        return Client(oxbus.ServiceBusClient(namespace), clock)

    with DataDirectory(path) as directory, Progress(console=Console(file=io.StringIO())) as progress:
        notes = DurableProgressLog(directory)
        report = run.run(progress, encode, make_client, notes)
        clock.tick("tell")
        sys.stdout.write(json.dumps(report.as_json()))
        sys.stdout.flush()
        notes.finish(passed=report.passed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "".join(sys.argv[2:]))
