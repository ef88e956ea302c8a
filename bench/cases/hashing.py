# SPDX-License-Identifier: Apache-2.0
"""Partition assignment of a million text keys of 16 to 36 bytes."""

from __future__ import annotations

import random
from functools import cache, partial
from typing import Any

import ceiling
import numpy as np
import oxbus
import pyarrow as pa
from peers import xxhash_loop
from plan import WHOLE, Plan
from targets import CEILING, TWO_THREADS

from cases.case import Case, expect
from cases.sweeps import together

KEYS = 1_000_000
PARTITIONS = 16
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz-_"


@cache
def text_keys(count: int) -> list[str]:
    """The same keys in every run, with evenly distributed lengths."""
    rng = random.Random(2013)
    return ["".join(rng.choices(_ALPHABET, k=rng.randint(16, 36))) for _ in range(count)]


@cache
def arrow_keys(count: int) -> pa.Array:
    """The keys as one Arrow string array."""
    return pa.array(text_keys(count), pa.string())


@cache
def right_answer(count: int) -> list[int]:
    """The result of the independent hash."""
    return [xxhash_loop.partition_of(key, PARTITIONS) for key in text_keys(count)]


def check(keys: Any, answer: Any) -> None:
    """Refuse partitions that are not those of the independent hash."""
    found = answer if isinstance(answer, list) else pa.array(answer).to_pylist()
    expect("partition ids", found == right_answer(len(keys)), wanted=True)


def _ceiling(keys: pa.Array) -> Any:
    compiled = ceiling.load()
    assert compiled is not None  # the case exists only then
    _, offsets, data = keys.buffers()
    out = np.empty(len(keys), np.int32)
    compiled.partition_ids(offsets.address, data.address, len(keys), out.ctypes.data, PARTITIONS)
    return pa.array(out)


def _ceiling_of_list(keys: list[str]) -> Any:
    compiled = ceiling.load()
    assert compiled is not None  # the case exists only then
    out = np.empty(len(keys), np.int32)
    compiled.partition_ids_of_list(keys, out.ctypes.data, PARTITIONS)
    return pa.array(out)


def _two_threads(keys: pa.Array) -> Any:
    half = len(keys) // 2
    answers: list[Any] = [None, None]

    def hash_part(side: int) -> None:
        part = keys.slice(0, half) if side == 0 else keys.slice(half)
        answers[side] = pa.array(oxbus.partition_ids(part, PARTITIONS))

    together([partial(hash_part, side) for side in range(2)])
    return pa.concat_arrays(answers)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Ours over Arrow and over a list, the loop, and the ceiling where a compiler is at hand."""
    arrow, listed = "partition_ids/16-36B/arrow_1m", "partition_ids/16-36B/list_1m"
    count = plan.of(KEYS)
    columns, texts = partial(arrow_keys, count), partial(text_keys, count)

    def loop(keys: list[str]) -> list[int]:
        return xxhash_loop.partitions_of_text(keys, PARTITIONS)

    def ours(keys: Any) -> Any:
        return oxbus.partition_ids(keys, PARTITIONS)

    compiled = [
        Case(arrow, CEILING, count, columns, _ceiling, check),
        Case(listed, CEILING, count, texts, _ceiling_of_list, check),
    ]
    return [
        *(compiled if ceiling.load() else []),
        Case(arrow, TWO_THREADS, count, columns, _two_threads, check),
        Case(arrow, "oxbus", count, columns, ours, check),
        Case(arrow, "xxhash loop", count, texts, loop, check),
        Case(listed, "oxbus", count, texts, ours, check),
        Case(listed, "xxhash loop", count, texts, loop, check),
    ]
