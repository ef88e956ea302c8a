# SPDX-License-Identifier: Apache-2.0
"""Settling single messages of a batch in another way than completing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from oxbus.spark.source.connection import connection_of
from oxbus.spark.source.options import connection_options
from oxbus.spark.task_settler import STATE_COLUMN, Outcome, Settler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_COLUMNS = ("queue", "reservation_id", "sequence_number")
_OUTCOMES = get_args(Outcome)


def settle(
    df: DataFrame,
    outcome: Outcome,
    options: Mapping[str, str],
    *,
    reason: str | None = None,
    description: str | None = None,
    session_state: str | None = None,
) -> int:
    """Settle the messages of a frame now; for use in `foreachBatch`.

    All other messages are completed when the batch is done. A batch that is retried after a failure no longer contains
    the settled messages.

    Args:
        df: Messages of a stream in peekLock mode, with the columns `queue`, `reservation_id` and `sequence_number`.
        outcome: ``"dead_letter"``, ``"defer"``, ``"abandon"`` (the message is available again at once) or
            ``"complete"``.
        options: How to reach the broker, as for `format("oxbus")`: `connectionString` or its alternatives.
        reason: Why messages are dead-lettered.
        description: What went wrong before they were dead-lettered.
        session_state: Of messages with sessions, the column with the new state of the session, binary or text; `df`
            then needs the column `session_id` too. Null changes nothing, and of several states that of the last message
            counts. The messages of a session are settled and its state set in one step, so a retried batch has either
            the old state and the messages, or the new state without them.

    Returns:
        The number of messages settled by this call.

    Raises:
        ValueError: A column is missing, or `outcome` or an option is wrong.
    """
    if outcome not in _OUTCOMES:
        raise ValueError(f"outcome must be one of {', '.join(_OUTCOMES)}: `{outcome}`")
    if outcome != "dead_letter" and (reason is not None or description is not None):
        raise ValueError("reason and description are for dead_letter only")
    needed = (*_COLUMNS, *(() if session_state is None else ("session_id", session_state)))
    missing = [name for name in needed if name not in df.columns]
    if missing:
        raise ValueError(f"column {missing[0]} is missing; settle needs {', '.join(needed)}")
    details = {"reason": reason, "description": description} if outcome == "dead_letter" else {}
    settler = Settler(connection_of(connection_options(options)), outcome, details)
    if session_state is None:
        settled = df.select(*_COLUMNS).mapInArrow(settler.messages, "settled bigint")
    else:
        state = df[session_state].cast("binary").alias(STATE_COLUMN)
        sessions = df.select(*_COLUMNS, "session_id", state).repartition("queue", "session_id")
        settled = sessions.mapInArrow(settler.sessions, "settled bigint")
    return sum(row.settled for row in settled.collect())
