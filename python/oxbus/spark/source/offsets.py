# SPDX-License-Identifier: Apache-2.0
"""The offsets of streams, as they stand in Spark's checkpoints.

Spark compares them as text: the same keys in the same order, and nothing in them that changes by itself.
`e` is the incarnation of the entity, so that a checkpoint of another one, or of one that was deleted and made again,
is found out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxbus.spark.source.positions import Positions

Offset = dict[str, Any]

_VERSION = 1


class ForeignCheckpointError(ValueError):
    """The checkpoint of the query does not belong to what the query reads."""


def reserving_offset(incarnation: str, consumer: str, number: int) -> Offset:
    """The offset behind the reservation of that number."""
    return {"v": _VERSION, "e": incarnation, "c": consumer, "n": number}


def reservation_number(offset: Offset, *, path: str, incarnation: str, consumer: str) -> int:
    """The reservation that an offset stands behind.

    Raises:
        ForeignCheckpointError: It is not of this entity or consumer.
    """
    _check(offset, path, incarnation, "n", "peekLock")
    if offset.get("c") != consumer:
        raise ForeignCheckpointError(
            f"the checkpoint belongs to consumer `{offset.get('c')}`, the query reads as `{consumer}`; "
            "set the option consumer to that, or start with an empty checkpoint"
        )
    return int(offset["n"])


def browsing_offset(incarnation: str, begin: Positions, end: Positions) -> Offset:
    """The offset of a batch between two positions.

    Both are in it: Spark asks again for where a query started when its first batch was not finished, and "latest" is
    elsewhere by then.
    """
    return {"v": _VERSION, "e": incarnation, "from": _as_json(begin), "to": _as_json(end)}


def browsed_positions(offset: Offset, *, path: str, incarnation: str) -> tuple[Positions, Positions]:
    """Where a batch begins and ends.

    Raises:
        ForeignCheckpointError: It is not of this entity.
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
            f"the checkpoint belongs to another entity than `{path}` is now, perhaps to one of that name that was "
            "deleted and made again; start with an empty checkpoint"
        )
