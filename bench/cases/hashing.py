# SPDX-License-Identifier: Apache-2.0
"""Partition assignment of a million text keys of 16 to 36 bytes."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import ceiling
import numpy as np
import oxbus
import pyarrow as pa
from peers import xxhash_loop

from cases.case import Case, expect

KEYS = 1_000_000
PARTITIONS = 16
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz-_"


@cache
def text_keys() -> list[str]:
    """The same keys in every run, lengths evenly spread."""
    rng = random.Random(2013)
    return ["".join(rng.choices(_ALPHABET, k=rng.randint(16, 36))) for _ in range(KEYS)]


@cache
def arrow_keys() -> pa.Array:
    """The keys as one Arrow string array."""
    return pa.array(text_keys(), pa.string())


@cache
def right_answer() -> list[int]:
    """What the independent hash says."""
    return [xxhash_loop.partition_of(key, PARTITIONS) for key in text_keys()]


def _check(_state: Any, answer: Any) -> None:
    found = answer if isinstance(answer, list) else pa.array(answer).to_pylist()
    expect("partition ids", found == right_answer(), wanted=True)


def _ceiling(keys: pa.Array) -> Any:
    compiled = ceiling.load()
    assert compiled is not None  # the case exists only then
    _, offsets, data = keys.buffers()
    out = np.empty(len(keys), np.int32)
    compiled.partition_ids(offsets.address, data.address, len(keys), out.ctypes.data, PARTITIONS)
    return pa.array(out)


def cases() -> list[Case]:
    """Ours over Arrow and over a list, the loop, and the ceiling where a compiler is at hand."""
    arrow, listed = "partition_ids/16-36B/arrow_1m", "partition_ids/16-36B/list_1m"

    def loop(keys: list[str]) -> list[int]:
        return xxhash_loop.partitions_of_text(keys, PARTITIONS)

    def ours(keys: Any) -> Any:
        return oxbus.partition_ids(keys, PARTITIONS)

    compiled = [Case(arrow, "ceiling (C)", KEYS, arrow_keys, _ceiling, _check)] if ceiling.load() else []
    return [
        *compiled,
        Case(arrow, "oxbus", KEYS, arrow_keys, ours, _check),
        Case(arrow, "xxhash loop", KEYS, text_keys, loop, _check),
        Case(listed, "oxbus", KEYS, text_keys, ours, _check),
        Case(listed, "xxhash loop", KEYS, text_keys, loop, _check),
    ]
