# SPDX-License-Identifier: Apache-2.0
"""The proofs: what came out of the queue, compared with what went in.

Every check looks at all messages and returns how many are wrong; nothing is sampled and nothing is trusted,
neither the queue's own counters nor the order in which batches arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import oxbus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Check:
    """One claim and whether it held."""

    claim: str
    passed: bool
    finding: str


def check_input(sent: pa.Table, flights: int, keyless: int) -> list[Check]:
    """What was sent is the whole data set."""
    without_key = sent["partition_key"].null_count
    distinct = len(pc.unique(sent["message_id"]))
    return [
        Check(
            f"all {flights:,} flights were encoded and sent, {keyless:,} of them without a key",
            sent.num_rows == flights == distinct and without_key == keyless,
            f"{sent.num_rows:,} sent, {distinct:,} different, {without_key:,} keyless",
        )
    ]


def check_placement(sent: pa.Table, partitions: int) -> list[Check]:
    """Spark and oxbus place every aircraft in the same partition."""
    ours = pa.array(oxbus.partition_ids(sent["partition_key"].combine_chunks(), partitions))
    theirs = sent["spark_partition"].combine_chunks()
    differing = sent.num_rows - (pc.sum(pc.equal(ours, theirs)).as_py() or 0) - _both_null(ours, theirs)
    return [Check("Spark's partition ids equal ours", differing == 0, f"{differing:,} of {sent.num_rows:,} differ")]


def check_delivery(sent: pa.Table, received: Sequence[pa.Table], partitions: int, left_in_queue: int) -> list[Check]:
    """Every message came out once, as sent, from the right partition and in order."""
    everything = pa.concat_tables(received)
    # Where in the sending order each received message was; null for one that was never sent.
    place = pc.index_in(everything["message_id"], sent["message_id"])
    known = place.combine_chunks().is_valid() if isinstance(place, pa.ChunkedArray) else place.is_valid()
    unknown = everything.num_rows - (pc.sum(known).as_py() or 0)
    messages = everything.filter(known)
    places = pc.drop_null(place).to_numpy().astype(np.int64)

    return [
        *_exactly_once(places, sent.num_rows, unknown, left_in_queue),
        _unchanged(sent, messages, places),
        *_kept_together_in_order(sent, messages, places, partitions),
        _numbers_rise(received),
    ]


def _both_null(left: pa.Array, right: pa.Array) -> int:
    return pc.sum(pc.and_(left.is_null(), right.is_null())).as_py() or 0


def _exactly_once(places: NDArray[np.int64], sent: int, unknown: int, left_in_queue: int) -> list[Check]:
    times = np.bincount(places, minlength=sent)
    lost, duplicated = int((times == 0).sum()), int((times > 1).sum())
    return [
        Check(
            f"all {sent:,} came out exactly once",
            lost == duplicated == unknown == 0,
            f"{lost:,} lost, {duplicated:,} more than once, {unknown:,} never sent",
        ),
        Check(
            "the queue is empty afterwards",
            left_in_queue == 0,
            f"{left_in_queue:,} messages left, locked and dead-lettered ones included",
        ),
    ]


def _unchanged(sent: pa.Table, messages: pa.Table, places: NDArray[np.int64]) -> Check:
    originals = sent.select(["partition_key", "body"]).take(pa.array(places))
    changed = 0
    for name in originals.column_names:
        same = pc.equal(originals[name], messages[name])
        null_in_both = pc.and_(originals[name].is_null(), messages[name].is_null())
        changed += messages.num_rows - (pc.sum(same).as_py() or 0) - (pc.sum(null_in_both).as_py() or 0)
    return Check("every body and key is as it was sent", changed == 0, f"{changed:,} changed")


def _kept_together_in_order(
    sent: pa.Table, messages: pa.Table, places: NDArray[np.int64], partitions: int
) -> list[Check]:
    """Judge each aircraft by the key it was sent with and the partition and number it came out with."""
    aircraft = sent["partition_key"].combine_chunks().dictionary_encode()
    code_of_place = aircraft.indices.fill_null(-1).to_numpy()
    right_partition = pa.array(oxbus.partition_ids(aircraft.dictionary, partitions)).to_numpy()

    code = code_of_place[places]
    keyed = code >= 0
    code, place = code[keyed], places[keyed]
    partition = messages["partition_id"].to_numpy()[keyed]
    number = messages["sequence_number"].to_numpy()[keyed]

    misrouted = int((partition != right_partition[code]).sum())
    by_aircraft = np.lexsort((place, code))  # per aircraft, in sending order
    code, partition, number = code[by_aircraft], partition[by_aircraft], number[by_aircraft]
    same_aircraft = code[1:] == code[:-1]
    split = len(np.unique(code[1:][same_aircraft & (partition[1:] != partition[:-1])]))
    late = len(np.unique(code[1:][same_aircraft & (number[1:] <= number[:-1])]))
    count = len(aircraft.dictionary)
    return [
        Check(
            f"the flights of each of {count:,} aircraft sit in one partition, the one its key hashes to",
            split == misrouted == 0,
            f"{split:,} aircraft split, {misrouted:,} messages misrouted",
        ),
        Check("and in the order they were sent", late == 0, f"{late:,} aircraft out of order"),
    ]


def _numbers_rise(received: Sequence[pa.Table]) -> Check:
    falls = 0
    for messages in received:
        partition = messages["partition_id"].to_numpy()
        number = messages["sequence_number"].to_numpy()
        for one in np.unique(partition):
            falls += int((np.diff(number[partition == one]) <= 0).sum())
    return Check(
        f"each of {len(received)} receivers saw every partition's sequence numbers rise",
        falls == 0,
        f"{falls:,} times a number did not rise",
    )
