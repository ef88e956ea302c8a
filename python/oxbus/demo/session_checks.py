# SPDX-License-Identifier: Apache-2.0
"""The checks of sessions: every flight once, in its own aircraft's session, in sending order.

The order is that of delivery, turn after turn; sequence numbers are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oxbus.demo.checks import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oxbus.demo.aircraft_sessions import TurnLog

_COLUMNS = pa.schema([("message_id", pa.string()), ("session_id", pa.string()), ("accepted", pa.string())])


def check_sessions(sent: pa.Table, left_out: int, book: TurnLog, left_in_queue: int) -> list[Check]:
    """Check that every flight came once, in its own session, in order, and no session had two holders.

    Args:
        sent: Columns `message_id` and `session_id`, in sending order.
        left_out: Number of flights without a tail number.
        book: The turns of all receivers.
        left_in_queue: Number of messages in the queue at the end.
    """
    received = pa.concat_tables(
        [
            _COLUMNS.empty_table(),
            *(
                turn.messages.append_column("accepted", pa.repeat(pa.scalar(turn.session_id), turn.messages.num_rows))
                for turn in book.turns
            ),
        ]
    ).combine_chunks()
    place = pc.index_in(received["message_id"].combine_chunks(), sent["message_id"])
    unknown = place.null_count
    received = received.filter(place.is_valid())
    places = pc.drop_null(place).to_numpy().astype(np.int64)
    return [
        _exactly_once(sent, left_out, places, unknown, left_in_queue),
        _own_session(sent, received, places, book.held_twice),
        _in_order(sent, places, book),
    ]


def _exactly_once(sent: pa.Table, left_out: int, places: NDArray[np.int64], unknown: int, left_in_queue: int) -> Check:
    times = np.bincount(places, minlength=sent.num_rows)
    lost, doubled = int((times == 0).sum()), int((times > 1).sum())
    return Check(
        f"sessions: {sent.num_rows:,} flights came out exactly once; {left_out:,} without a tail number were left out",
        lost == doubled == unknown == left_in_queue == 0,
        f"{lost:,} lost, {doubled:,} more than once, {unknown:,} never sent, {left_in_queue:,} left in the queue",
    )


def _own_session(sent: pa.Table, received: pa.Table, places: NDArray[np.int64], held_twice: int) -> Check:
    tail_number = sent["session_id"].take(pa.array(places))
    own = pc.and_(pc.equal(received["session_id"], tail_number), pc.equal(received["accepted"], tail_number))
    strange = received.num_rows - (pc.sum(own).as_py() or 0)
    return Check(
        "sessions: each receiver got only flights of the aircraft whose session it held, and held it alone",
        strange == held_twice == 0,
        f"{strange:,} flights of others, {held_twice:,} sessions held by two",
    )


def _in_order(sent: pa.Table, places: NDArray[np.int64], book: TurnLog) -> Check:
    """Follow each aircraft through all its turns, across receivers."""
    aircraft = sent["session_id"].combine_chunks().dictionary_encode()
    code = aircraft.indices.to_numpy()[places]
    by_aircraft = np.argsort(code, kind="stable")  # in the order they came out
    code, place = code[by_aircraft], places[by_aircraft]
    late = len(np.unique(code[1:][(code[1:] == code[:-1]) & (place[1:] <= place[:-1])]))
    receivers: dict[str, set[int]] = {}
    for turn in book.turns:
        receivers.setdefault(turn.session_id, set()).add(turn.receiver)
    shared = sum(len(holders) > 1 for holders in receivers.values())
    return Check(
        f"sessions: the flights of each of {len(aircraft.dictionary):,} aircraft came out in the order they were sent",
        late == 0,
        f"{late:,} aircraft out of order; {len(book.turns):,} turns, {shared:,} aircraft shared by receivers",
    )
