# SPDX-License-Identifier: Apache-2.0
"""The check of a subscription: it got the messages that its rules select, each once, and no others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from oxbus.demo.checks import Check


def check_subscription(title: str, expected: pa.ChunkedArray, came: pa.ChunkedArray) -> Check:
    """Compare message ids, not only their number.

    Args:
        title: The subscription and its selection.
        expected: The ids of the flights that the data set selects.
        came: The ids of the received messages.
    """
    missing = len(expected) - (pc.sum(pc.is_in(expected, pc.unique(came))).as_py() or 0)
    not_selected = len(came) - (pc.sum(pc.is_in(came, expected)).as_py() or 0)
    doubled = len(came) - len(pc.unique(came))
    return Check(
        f"{title} got the {len(expected):,} flights that the table counts",
        missing == not_selected == doubled == 0 and len(came) == len(expected),
        f"{len(came):,} came, {missing:,} missing, {not_selected:,} not selected, {doubled:,} more than once",
    )
