# SPDX-License-Identifier: Apache-2.0
"""The check of a subscription: it got the messages that its rules select, each once, and no others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from oxbus.demo.checks import Check


def check_subscription(title: str, expected: pa.ChunkedArray, received: pa.ChunkedArray) -> Check:
    """Compare message ids, not only their number.

    Args:
        title: The subscription and its selection.
        expected: The ids of the flights that the data set selects.
        received: The ids of the received messages.
    """
    missing = len(expected) - (pc.sum(pc.is_in(expected, pc.unique(received))).as_py() or 0)
    not_selected = len(received) - (pc.sum(pc.is_in(received, expected)).as_py() or 0)
    doubled = len(received) - len(pc.unique(received))
    return Check(
        f"{title} got the {len(expected):,} flights that the table counts",
        missing == not_selected == doubled == 0 and len(received) == len(expected),
        f"{len(received):,} received, {missing:,} missing, {not_selected:,} not selected, {doubled:,} more than once",
    )
