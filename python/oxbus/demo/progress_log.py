# SPDX-License-Identifier: Apache-2.0
"""What a demo writes down, and when, so that a killed one can be continued without trusting to luck.

What is known after a kill, and what is done about the rest
- Encoding: all messages are kept in one file when Spark has finished; before that, Spark starts again.
- Sending: each batch is noted when it is acknowledged. The ids of the batch after the last note are looked for in the
  queue, and only what is missing is sent.
- Receiving: every row is noted before it is completed, and the note is marked when the completion is acknowledged.
  What was not completed is delivered again; rows that were noted already count once.

`ProgressLog` lives in memory and ends with the process; `DurableProgressLog` are files beside the namespace.
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
    """ProgressLog of a demo in memory, which nothing continues."""

    namespace: Path | None = None
    """Where the messages are kept; None: in memory."""
    directory: Path | None = None
    """Where all files are; None: there are none."""
    run = 1
    """The number of this run, counted from 1."""
    acknowledged_batches = 0
    """Batches that are known to be in the queue, or to have been there."""

    def __init__(self) -> None:
        self._deliveries: dict[tuple[int, int], Delivery] = {}

    def encoded(self, encode: Callable[[], EncodedFlights]) -> EncodedFlights:
        """Return the messages to send; `encode` makes them when no earlier run did."""
        return encode()

    def acknowledge(self, batches: int) -> None:
        """Note that so many batches are in the queue."""
        self.acknowledged_batches = batches

    def take(self, receiver: int, number: int, messages: pa.Table) -> None:
        """Note what a receiver got with its call of that number, before it completes it.

        Args:
            receiver: The receiver, counted from 0.
            number: How many non-empty calls it made in this run before this one.
            messages: Columns of `deliveries.SCHEMA`.
        """
        self._deliveries[receiver, number] = Delivery(self.run, receiver, messages, completed=False)

    def complete(self, receiver: int, number: int) -> None:
        """Note that the completion of these messages was acknowledged."""
        taken = self._deliveries[receiver, number]
        self._deliveries[receiver, number] = Delivery(taken.run, taken.receiver, taken.messages, completed=True)

    def deliveries(self) -> list[Delivery]:
        """Everything that was taken, by run, receiver and number."""
        return [delivery for _key, delivery in sorted(self._deliveries.items(), key=lambda item: item[0])]

    def finish(self, *, passed: bool) -> None:
        """The counts were told: the next demo starts anew."""


class DurableProgressLog(ProgressLog):
    """ProgressLog in files.

    Args:
        directory: Where they are, owned by this process.
    """

    def __init__(self, directory: DataDirectory) -> None:
        super().__init__()
        self._files = directory
        self.directory = directory.path
        self.namespace = directory.namespace
        self.acknowledged_batches = directory.progress.acknowledged_batches

    def encoded(self, encode: Callable[[], EncodedFlights]) -> EncodedFlights:
        """Return the messages to send; `encode` makes them when no earlier run did."""
        bulk = None
        if not self._files.encoded.exists():
            fresh = encode()
            self._keep(fresh)
            bulk = fresh.bulk
        self.run = self._files.count_run()
        # What is sent and judged is what is kept, in the first run too.
        with pa.ipc.open_file(self._files.encoded) as file:
            batches = [file.get_batch(place) for place in range(file.num_record_batches)]
            known = {name.decode(): float(value) for name, value in file.schema.metadata.items()}
        plain = [batch.replace_schema_metadata(None) for batch in batches]
        return EncodedFlights(plain, int(known["flights"]), int(known["keyless"]), known["encode_seconds"], bulk)

    def acknowledge(self, batches: int) -> None:
        """Note that so many batches are in the queue."""
        super().acknowledge(batches)
        self._files.acknowledge(batches)

    def take(self, receiver: int, number: int, messages: pa.Table) -> None:
        """Note what a receiver got, safe from a loss of power: once completed, the queue has it no more."""

        def write(file: object) -> None:
            with pa.ipc.new_file(file, messages.schema, options=_COMPRESSION) as writer:
                writer.write_table(messages)

        self._files.write(self._note(receiver, number, _NOTED), write)

    def complete(self, receiver: int, number: int) -> None:
        """Mark the note. Not synced: a mark that is lost leaves a doubt, and a doubt is harmless."""
        self._note(receiver, number, _NOTED).rename(self._note(receiver, number, _COMPLETED))

    def deliveries(self) -> list[Delivery]:
        """Everything that was taken in all runs, by run, receiver and number."""
        found = []
        for path in self._files.received.glob("*.arrow"):
            run, receiver, number = map(int, path.name.partition(".")[0].split("-"))
            with pa.ipc.open_file(path) as file:
                messages = file.read_all()
            completed = path.name.endswith(f"{_COMPLETED}.arrow")
            found.append((number, Delivery(run, receiver, messages, completed)))
        return [each for _number, each in sorted(found, key=lambda it: (it[1].run, it[1].receiver, it[0]))]

    def finish(self, *, passed: bool) -> None:
        """The counts were told: the next demo starts anew, and wrong counts stay on the disk until then."""
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
