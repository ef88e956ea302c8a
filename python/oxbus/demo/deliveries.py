# SPDX-License-Identifier: Apache-2.0
"""The deliveries of all runs, and which of them are redeliveries because a run was killed.

A receiver records a delivery, completes it, and marks the record. A kill between two of these steps leaves unmarked
records: whether their messages were completed is unknown, and those that were not are delivered again.
A redelivery is not a second message. It is verified: it has the sequence number and message id of the recorded one,
belongs to a later run, and the earlier record has no mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

SCHEMA = pa.schema(
    [
        ("message_id", pa.string()),
        ("partition_key", pa.string()),
        ("body", pa.binary()),
        ("partition_id", pa.int16()),
        ("sequence_number", pa.int64()),
        ("delivery_count", pa.int32()),
    ]
)
"""The recorded columns of a message."""


@dataclass(frozen=True)
class Delivery:
    """The messages of one receive call, in order."""

    run: int
    receiver: int
    messages: pa.Table
    completed: bool
    """Whether the completion of the messages was acknowledged and recorded."""


class Deliveries:
    """All deliveries of a demo, row by row.

    Args:
        deliveries: Those of one receiver in order; those of earlier runs first.
    """

    def __init__(self, deliveries: Iterable[Delivery]) -> None:
        parts = list(deliveries)
        rows = [part.messages.num_rows for part in parts]
        self.messages: pa.Table = pa.concat_tables(
            [SCHEMA.empty_table(), *(part.messages for part in parts)]
        ).combine_chunks()
        self.run: NDArray[np.int64] = np.repeat(np.array([part.run for part in parts], np.int64), rows)
        self.receiver: NDArray[np.int64] = np.repeat(np.array([part.receiver for part in parts], np.int64), rows)
        self.completed: NDArray[np.bool_] = np.repeat(np.array([part.completed for part in parts], np.bool_), rows)

    @cached_property
    def noted_again(self) -> NDArray[np.bool_]:
        """Rows that an earlier run had recorded without knowing them completed."""
        earlier, later = self._same_number
        code = self.messages["message_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        count = self.messages["delivery_count"].to_numpy()
        # A power failure may lose delivery counts, so the count need not rise; it never falls.
        allowed = (
            (self.run[later] > self.run[earlier])
            & ~self.completed[earlier]
            & (code[later] == code[earlier])
            & (count[later] >= count[earlier])
        )
        again = np.zeros(self.messages.num_rows, np.bool_)
        again[later[allowed]] = True
        return again

    @property
    def came_back(self) -> int:
        """Number of rows that were delivered after their completion had been acknowledged."""
        earlier, _later = self._same_number
        return int(self.completed[earlier].sum())

    @property
    def redelivered(self) -> int:
        """Number of rows with a delivery count above 0."""
        return int((self.messages["delivery_count"].to_numpy() > 0).sum())

    def per_partition(self, partitions: int) -> list[int]:
        """Count the messages of each partition; redeliveries count once."""
        partition_ids = self.messages["partition_id"].to_numpy()[~self.noted_again]
        counts: list[int] = np.bincount(partition_ids, minlength=partitions).tolist()
        return counts

    def per_receiver(self, runs: int, receivers: int) -> list[int]:
        """Count the messages that each receiver recorded first, by run, then by receiver."""
        place = (self.run - 1) * receivers + self.receiver
        counts: list[int] = np.bincount(place[~self.noted_again], minlength=runs * receivers).tolist()
        return counts

    @cached_property
    def _same_number(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of rows with the same sequence number: a delivery, and the next one of the same message."""
        number = self.messages["sequence_number"].to_numpy()
        by_number = np.argsort(number, kind="stable")
        same = number[by_number][1:] == number[by_number][:-1]
        return by_number[:-1][same], by_number[1:][same]
