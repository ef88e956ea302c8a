# SPDX-License-Identifier: Apache-2.0
"""The partition of each key by a Python loop over the package `xxhash`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 42
_SIGN = 1 << 63


def partition_of(key: str | bytes, partitions: int) -> int:
    """The rule for one key and any number of partitions; the independent oracle of the tests."""
    unsigned = xxh64_intdigest(key.encode() if isinstance(key, str) else key, seed=SEED)
    return ((unsigned ^ _SIGN) - _SIGN) % partitions  # signed; Python's % never returns a negative number


def partitions_of_text(keys: Iterable[str], partitions: int) -> list[int]:
    """The loop over str keys, written for speed: for a power of two the low bits are the answer."""
    if partitions & (partitions - 1):
        return [partition_of(key, partitions) for key in keys]
    mask = partitions - 1
    digest = xxh64_intdigest
    return [digest(key.encode(), 42) & mask for key in keys]
