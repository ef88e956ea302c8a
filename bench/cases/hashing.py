# SPDX-License-Identifier: Apache-2.0
"""Partition assignment of a million text keys of 16 to 36 bytes."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa

import oxbus
from cases.case import Case, expect
from peers import xxhash_loop

KEYS = 1_000_000
PARTITIONS = 16
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz-_"


@cache
def text_keys() -> list[str]:
    """The same keys in every run, lengths evenly spread."""
    rng = random.Random(2013)  # noqa: S311 -- repeatable, nothing secret
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


def cases() -> list[Case]:
    """Ours over Arrow and over a list, and the loop."""
    arrow, listed = "partition_ids/16-36B/arrow_1m", "partition_ids/16-36B/list_1m"

    def loop(keys: list[str]) -> list[int]:
        return xxhash_loop.partitions_of_text(keys, PARTITIONS)

    def ours(keys: Any) -> Any:
        return oxbus.partition_ids(keys, PARTITIONS)

    return [
        Case(arrow, "oxbus", KEYS, arrow_keys, ours, _check),
        Case(arrow, "xxhash loop", KEYS, text_keys, loop, _check),
        Case(listed, "oxbus", KEYS, text_keys, ours, _check),
        Case(listed, "xxhash loop", KEYS, text_keys, loop, _check),
    ]
