# SPDX-License-Identifier: Apache-2.0
"""How the body of a message is read in every bench: as bytes, as users do, and its length and last byte are checked.

Ours joins the parts of `message.body`, as programs for the SDK do; what else hands out bytes has them looked at.
A case that leaves its bodies alone has an id that ends in `_unread`, and no report shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from cases.case import WrongAnswerError

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage
    from peers.peeklock import Message

UNREAD = "_unread"
END = b"."
"""The last byte of every body."""
_END = END[0]


def bodies_of(size: int, count: int) -> list[bytes]:
    """Distinct bodies of `size` bytes, 9 at least."""
    return [(number.to_bytes(8, "big") * (size // 8 + 1))[: size - 1] + END for number in range(count)]


def read_message(message: ServiceBusReceivedMessage, size: int) -> bytes:
    """One of ours."""
    body = b"".join(message.body)
    if len(body) != size or body[-1] != _END:
        _refuse(body, size)
    return body


def read_taken(message: tuple[int, Message], size: int) -> bytes:
    """A delivery of the hand-written queue: a token, and an object that has the body."""
    body = message[1].body
    if len(body) != size or body[-1] != _END:
        _refuse(body, size)
    return body


def read_tuple(message: tuple[int, int, bytes], size: int) -> bytes:
    """A delivery of the ceiling, which has copied the body out."""
    body = message[2]
    if len(body) != size or body[-1] != _END:
        _refuse(body, size)
    return body


def read_bytes(body: bytes, size: int) -> bytes:
    """A delivery of a peer, after its client made bytes of it."""
    if len(body) != size or body[-1] != _END:
        _refuse(body, size)
    return body


def read_column(column: pa.Array[Any] | pa.ChunkedArray[Any], size: int) -> None:
    """Bodies of rows, where they are: no object for each."""
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    if len(column) and lengths != {"min": size, "max": size}:
        raise WrongAnswerError(f"bodies of {lengths['min']} to {lengths['max']} bytes, wanted {size}")
    if pc.all(pc.ends_with(column, pattern=END)).as_py() is False:
        raise WrongAnswerError(f"a body of {size} bytes does not end as it was sent")


def _refuse(body: bytes, size: int) -> None:
    raise WrongAnswerError(f"a body of {len(body)} bytes that ends in {body[-1:]!r}, wanted {size} and {END!r}")
