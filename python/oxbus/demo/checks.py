# SPDX-License-Identifier: Apache-2.0
"""The checks: the received messages, compared with the sent ones.

Every check examines all messages and returns how many are wrong. It samples nothing, and relies neither on the queue's
counters nor on the order of batches.

Effects of a kill
- A row that is recorded again (see `deliveries.py`) is the same delivery and counts once.
- The order of an aircraft's flights is checked by the sequence numbers of all counted rows, regardless of the run.
- Sequence numbers rise for each receiver of each run separately. Between runs they do not: deliveries that were not
completed come again, before messages that the other receiver had completed already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import oxbus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oxbus.demo.deliveries import Deliveries
    from oxbus.demo.exchange import SendResult


@dataclass(frozen=True)
class Check:
    """One claim, and whether it held."""

    claim: str
    passed: bool
    finding: str


def check_input(sent: pa.Table, flights: int, keyless: int) -> list[Check]:
    """Check that the whole data set was sent."""
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
    """Check that Spark and oxbus place every aircraft in the same partition."""
    ours = pa.array(oxbus.partition_ids(sent["partition_key"].combine_chunks(), partitions))
    theirs = sent["spark_partition"].combine_chunks()
    differing = sent.num_rows - (pc.sum(pc.equal(ours, theirs)).as_py() or 0) - _both_null(ours, theirs)
    return [Check("Spark's partition ids equal ours", differing == 0, f"{differing:,} of {sent.num_rows:,} differ")]


def check_kept(sent: SendResult) -> list[Check]:
    """Check that a run killed while sending lost no acknowledged message; empty if no run was killed."""
    if sent.acknowledged_before == 0:
        return []
    return [
        Check(
            f"the {sent.acknowledged_before:,} messages acknowledged before the kill were in the queue after it",
            sent.missing == 0,
            f"{sent.missing:,} missing",
        )
    ]


def check_delivery(sent: pa.Table, deliveries: Deliveries, partitions: int, left_in_queue: int) -> list[Check]:
    """Check that every message was received once, unchanged, from the right partition and in order."""
    # Position of each delivered message in the sending order; null if it was never sent.
    place = pc.index_in(deliveries.messages["message_id"].combine_chunks(), sent["message_id"])
    known = place.is_valid().to_numpy(zero_copy_only=False)
    unknown = int((~known & ~deliveries.noted_again).sum())
    messages = deliveries.messages.filter(pa.array(known))
    places = pc.drop_null(place).to_numpy().astype(np.int64)
    counts = ~deliveries.noted_again[known]

    return [
        _exactly_once(places[counts], sent.num_rows, unknown, int(deliveries.noted_again.sum())),
        _settled_stays_settled(deliveries),
        _queue_is_empty(left_in_queue),
        _unchanged(sent, messages, places),
        *_kept_together_in_order(sent, messages.filter(pa.array(counts)), places[counts], partitions),
        _numbers_rise(deliveries),
    ]


def _both_null(left: pa.Array, right: pa.Array) -> int:
    return pc.sum(pc.and_(left.is_null(), right.is_null())).as_py() or 0


def _exactly_once(places: NDArray[np.int64], sent: int, unknown: int, noted_again: int) -> Check:
    times = np.bincount(places, minlength=sent)
    lost, duplicated = int((times == 0).sum()), int((times > 1).sum())
    finding = f"{lost:,} lost, {duplicated:,} more than once, {unknown:,} never sent"
    if noted_again:
        finding += f"; {noted_again:,} came again after a kill and count once"
    return Check(f"all {sent:,} came out exactly once", lost == duplicated == unknown == 0, finding)


def _settled_stays_settled(deliveries: Deliveries) -> Check:
    came_back = deliveries.came_back
    return Check("none came again once its completion was acknowledged", came_back == 0, f"{came_back:,} did")


def _queue_is_empty(left_in_queue: int) -> Check:
    return Check(
        "the queue is empty afterwards",
        left_in_queue == 0,
        f"{left_in_queue:,} messages left, locked and dead-lettered ones included",
    )


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
    """Check each aircraft by its key when sent, and its partition and number when received."""
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


def _numbers_rise(deliveries: Deliveries) -> Check:
    partition = deliveries.messages["partition_id"].to_numpy()
    number = deliveries.messages["sequence_number"].to_numpy()
    # Stable sort: deliveries of one receiver from one partition stay in order.
    by_source = np.lexsort((partition, deliveries.receiver, deliveries.run))
    sources = np.stack([deliveries.run, deliveries.receiver, partition])[:, by_source]
    same_source = (sources[:, 1:] == sources[:, :-1]).all(axis=0)
    falls = int((np.diff(number[by_source])[same_source] <= 0).sum())
    receivers = np.unique(sources[:2], axis=1).shape[1]
    return Check(
        f"each of {receivers} receivers saw every partition's sequence numbers rise",
        falls == 0,
        f"{falls:,} times a number did not rise",
    )
