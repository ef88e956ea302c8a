# SPDX-License-Identifier: Apache-2.0
"""The content of a checkpoint, and the detection of a checkpoint of another query."""

from __future__ import annotations

import json

import pytest
from oxbus.spark.source.offsets import (
    ForeignCheckpointError,
    browsed_positions,
    browsing_offset,
    reservation_number,
    reserving_offset,
)


def test_offsets_survive_json_as_text() -> None:
    """Spark compares the JSON texts, so a round trip must not change one."""
    for offset in (reserving_offset("e1", "c", 7), browsing_offset("e1", (0, 5), (3, 9))):
        text = json.dumps(offset)
        assert json.dumps(json.loads(text)) == text


def test_offsets_have_a_description() -> None:
    """The number of a reservation, or the begin and end of a batch."""
    offset = reserving_offset("e1", "c", 7)
    assert reservation_number(offset, path="q", incarnation="e1", consumer="c") == 7
    found = browsed_positions(json.loads(json.dumps(browsing_offset("e1", (0, 5), (3, 9)))), path="q", incarnation="e1")
    assert found == ((0, 5), (3, 9))


def test_checkpoint_of_another_query_is_refused() -> None:
    """A checkpoint of another incarnation, consumer or mode, or with another content."""
    offset = reserving_offset("e1", "c", 7)
    with pytest.raises(ForeignCheckpointError, match="does not belong to the entity"):
        reservation_number(offset, path="q", incarnation="e2", consumer="c")
    with pytest.raises(ForeignCheckpointError, match="belongs to consumer `c`"):
        reservation_number(offset, path="q", incarnation="e1", consumer="d")
    with pytest.raises(ForeignCheckpointError, match="receiveMode peek"):
        browsed_positions(offset, path="q", incarnation="e1")
    with pytest.raises(ForeignCheckpointError, match="empty checkpoint"):
        reservation_number({"offset": 3}, path="q", incarnation="e1", consumer="c")
