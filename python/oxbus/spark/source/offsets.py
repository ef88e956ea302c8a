# SPDX-License-Identifier: Apache-2.0
"""The offsets of streams, as stored in Spark's checkpoints.

Spark compares them as text, so keys and their order are fixed, and a value changes only with the position.
`e` is the incarnation of the entity. It detects a checkpoint of another entity, or of one that was deleted and created
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxbus.spark.source.positions import Positions

Offset = dict[str, Any]

_VERSION = 1


class ForeignCheckpointError(ValueError):
    """The checkpoint of the query belongs to another entity, consumer or mode."""


def reserving_offset(incarnation: str, consumer: str, number: int) -> Offset:
    """Return the offset after the reservation of that number."""
    return {"v": _VERSION, "e": incarnation, "c": consumer, "n": number}


def reservation_number(offset: Offset, *, path: str, incarnation: str, consumer: str) -> int:
    """Return the reservation that an offset follows.

    Raises:
        ForeignCheckpointError: The offset is of another entity or consumer.
    """
    _check(offset, path, incarnation, "n", "peekLock")
    if offset.get("c") != consumer:
        raise ForeignCheckpointError(
            f"the checkpoint belongs to consumer `{offset.get('c')}`, the query reads as `{consumer}`; "
            "set the option consumer to that, or start with an empty checkpoint"
        )
    return int(offset["n"])


def browsing_offset(incarnation: str, begin: Positions, end: Positions) -> Offset:
    """Return the offset of a batch between two positions.

    It contains both, because Spark asks again for the start of a query whose first batch did not finish, and "latest"
    has moved by then.
    """
    return {"v": _VERSION, "e": incarnation, "from": _as_json(begin), "to": _as_json(end)}


def browsed_positions(offset: Offset, *, path: str, incarnation: str) -> tuple[Positions, Positions]:
    """Return where a batch begins and ends.

    Raises:
        ForeignCheckpointError: The offset is of another entity.
    """
    _check(offset, path, incarnation, "to", "peek")
    return tuple(offset["from"].values()), tuple(offset["to"].values())


def _as_json(positions: Positions) -> dict[str, int]:
    return {str(partition): position for partition, position in enumerate(positions)}


def _check(offset: Offset, path: str, incarnation: str, key: str, mode: str) -> None:
    if offset.get("v") != _VERSION or key not in offset:
        raise ForeignCheckpointError(
            f"the checkpoint was not written by a query with receiveMode {mode}; "
            "use the receiveMode that it began with, or start with an empty checkpoint"
        )
    if offset.get("e") != incarnation:
        raise ForeignCheckpointError(
            f"the checkpoint does not belong to the entity `{path}`, perhaps because that was deleted and created "
            "again; start with an empty checkpoint"
        )
