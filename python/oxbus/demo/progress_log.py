# SPDX-License-Identifier: Apache-2.0
"""The progress log of a demo, from which a killed run continues.

After a kill
- Encoding: all messages are stored in one file when Spark has finished; before that, Spark starts again.
- Sending: each batch is recorded when it is acknowledged. The ids of the next batch are looked up in the queue, and
only missing messages are sent.
- Receiving: every row is recorded before it is completed, and the record is marked when the completion is acknowledged.
Messages that were not completed are delivered again; rows that were recorded already count once.

`ProgressLog` is in memory and ends with the process; `DurableProgressLog` are files beside the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from oxbus.demo.deliveries import Delivery
from oxbus.demo.encoded import EncodedFlights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.demo.data_directory import DataDirectory

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")
_NOTED, _COMPLETED = ".noted", ".completed"


class ProgressLog:
    """A progress log in memory."""

    namespace: Path | None = None
    """Directory of the messages; None: in memory."""
    directory: Path | None = None
    """Directory of all files; None: there are none."""
    run = 1
    """The number of this run, counted from 1."""
    acknowledged_batches = 0
    """Number of acknowledged batches."""

    def __init__(self) -> None:
        self._deliveries: dict[tuple[int, int], Delivery] = {}

    def encoded(self, encode: Callable[[], EncodedFlights]) -> EncodedFlights:
        """Return the messages to send; `encode` creates them unless an earlier run did."""
        return encode()

    def acknowledge(self, batches: int) -> None:
        """Record that this many batches are in the queue."""
        self.acknowledged_batches = batches

    def take(self, receiver: int, number: int, messages: pa.Table) -> None:
        """Record the result of a receive call before its messages are completed.

        Args:
            receiver: The receiver, counted from 0.
            number: Number of non-empty calls that it made before in this run.
            messages: Columns of `deliveries.SCHEMA`.
        """
        self._deliveries[receiver, number] = Delivery(self.run, receiver, messages, completed=False)

    def complete(self, receiver: int, number: int) -> None:
        """Record that the completion of these messages was acknowledged."""
        delivery = self._deliveries[receiver, number]
        self._deliveries[receiver, number] = Delivery(
            delivery.run, delivery.receiver, delivery.messages, completed=True
        )

    def deliveries(self) -> list[Delivery]:
        """Return all deliveries, by run, receiver and number."""
        return [delivery for _key, delivery in sorted(self._deliveries.items(), key=lambda item: item[0])]

    def finish(self, *, passed: bool) -> None:
        """Let the next demo start from the beginning: the report was printed."""


class DurableProgressLog(ProgressLog):
    """A progress log in files.

    Args:
        directory: Their directory, owned by this process.
    """

    def __init__(self, directory: DataDirectory) -> None:
        super().__init__()
        self._files = directory
        self.directory = directory.path
        self.namespace = directory.namespace
        self.acknowledged_batches = directory.progress.acknowledged_batches

    def encoded(self, encode: Callable[[], EncodedFlights]) -> EncodedFlights:
        """Return the messages to send; `encode` creates them unless an earlier run did."""
        bulk = None
        if not self._files.encoded.exists():
            fresh = encode()
            self._keep(fresh)
            bulk = fresh.bulk
        self.run = self._files.count_run()
        # The first run, too, sends and checks the stored messages.
        with pa.ipc.open_file(self._files.encoded) as file:
            batches = [file.get_batch(place) for place in range(file.num_record_batches)]
            known = {name.decode(): float(value) for name, value in file.schema.metadata.items()}
        plain = [batch.replace_schema_metadata(None) for batch in batches]
        return EncodedFlights(plain, int(known["flights"]), int(known["keyless"]), known["encode_seconds"], bulk)

    def acknowledge(self, batches: int) -> None:
        """Record that this many batches are in the queue."""
        super().acknowledge(batches)
        self._files.acknowledge(batches)

    def take(self, receiver: int, number: int, messages: pa.Table) -> None:
        """Record a delivery durably: once completed, the queue no longer has the messages."""

        def write(file: object) -> None:
            with pa.ipc.new_file(file, messages.schema, options=_COMPRESSION) as writer:
                writer.write_table(messages)

        self._files.write(self._note(receiver, number, _NOTED), write)

    def complete(self, receiver: int, number: int) -> None:
        """Mark the record, without a sync: a lost mark only makes the completion unknown, which is harmless."""
        self._note(receiver, number, _NOTED).rename(self._note(receiver, number, _COMPLETED))

    def deliveries(self) -> list[Delivery]:
        """Return the deliveries of all runs, by run, receiver and number."""
        found = []
        for path in self._files.received.glob("*.arrow"):
            run, receiver, number = map(int, path.name.partition(".")[0].split("-"))
            with pa.ipc.open_file(path) as file:
                messages = file.read_all()
            completed = path.name.endswith(f"{_COMPLETED}.arrow")
            found.append((number, Delivery(run, receiver, messages, completed)))
        return [each for _number, each in sorted(found, key=lambda it: (it[1].run, it[1].receiver, it[0]))]

    def finish(self, *, passed: bool) -> None:
        """Let the next demo start from the beginning; after wrong counts the files stay until then."""
        self._files.finish(keep=not passed)

    def _keep(self, encoded: EncodedFlights) -> None:
        known = {"flights": encoded.flights, "keyless": encoded.keyless, "encode_seconds": encoded.encode_seconds}
        schema = encoded.batches[0].schema.with_metadata({name: str(value) for name, value in known.items()})

        def write(file: object) -> None:
            with pa.ipc.new_file(file, schema, options=_COMPRESSION) as writer:
                for batch in encoded.batches:
                    writer.write_batch(batch)

        self._files.write(self._files.encoded, write)

    def _note(self, receiver: int, number: int, state: str) -> Path:
        return self._files.received / f"{self.run:04}-{receiver}-{number:06}{state}.arrow"
