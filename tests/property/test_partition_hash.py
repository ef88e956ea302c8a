# SPDX-License-Identifier: Apache-2.0
"""The partition hash against the independent package `xxhash`, for every type of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import oxbus
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTITIONS_MAX = 65_535
PARTITIONS = st.sampled_from([1, 7, 16, 1000])
TEXTS = st.lists(st.none() | st.text(max_size=80), max_size=40)
NUMPY_TEXT = st.text(max_size=40).filter(lambda key: not key.endswith("\0"))
BYTES = st.lists(st.none() | st.binary(max_size=80), max_size=40)

VECTORS = [
    ("", -7444071767201028348),
    ("a", -8582455328737087284),
    ("key-0", 6192689918297192180),
    ("key-1", 3953485860046200431),
    ("orders/42", 867748341616379987),
    ("日本語", -619341062884681239),
]

TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


def independent(key: str | bytes, partitions: int) -> int:
    """The reference: signed XXH64 with seed 42, and a modulo that is never negative."""
    unsigned = xxhash.xxh64_intdigest(key.encode() if isinstance(key, str) else key, seed=42)
    signed = unsigned - 2**64 if unsigned >= 2**63 else unsigned
    return signed % partitions


def by_reference(keys: Sequence[str | bytes | None], partitions: int) -> list[int | None]:
    """The reference for each key; None for a missing key."""
    return [None if key is None else independent(key, partitions) for key in keys]


def by_oxbus(keys: Any, partitions: int) -> list[int | None]:
    """The partitions that oxbus returns, read through Arrow."""
    answer = pa.array(oxbus.partition_ids(keys, partitions))
    assert answer.type == pa.int32()
    return list(answer.to_pylist())


@pytest.mark.parametrize(("key", "signed"), VECTORS)
def test_known_hashes(key: str, signed: int) -> None:
    """The partition is the signed hash modulo the number of partitions: its low bits for 16."""
    unsigned = xxhash.xxh64_intdigest(key.encode(), seed=42)
    assert (unsigned - 2**64 if unsigned >= 2**63 else unsigned) == signed
    for partitions in (1, 7, 16, 1000, PARTITIONS_MAX):
        assert oxbus.partition_id(key, partitions) == signed % partitions
        assert oxbus.partition_id(key.encode(), partitions) == signed % partitions


def test_sixteen_partitions_by_default() -> None:
    """The number of partitions of a queue is the default."""
    assert oxbus.partition_id("a") == oxbus.partition_id("a", 16) == 12
    assert by_oxbus(["a", ""], 16) == pa.array(oxbus.partition_ids(["a", ""])).to_pylist() == [12, 4]


@given(key=st.text(max_size=200) | st.binary(max_size=2000), partitions=st.integers(1, PARTITIONS_MAX))
def test_one_key(key: str | bytes, partitions: int) -> None:
    """Text is hashed as its UTF-8 bytes, whatever the number of partitions."""
    assert oxbus.partition_id(key, partitions) == independent(key, partitions)


@given(keys=TEXTS, partitions=PARTITIONS)
def test_lists_and_tuples_of_text(keys: list[str | None], partitions: int) -> None:
    """A sequence of str with None values."""
    assert by_oxbus(keys, partitions) == by_reference(keys, partitions)
    assert by_oxbus(tuple(keys), partitions) == by_reference(keys, partitions)


@given(keys=BYTES, partitions=PARTITIONS)
def test_lists_of_bytes(keys: list[bytes | None], partitions: int) -> None:
    """A sequence of bytes with None values."""
    assert by_oxbus(keys, partitions) == by_reference(keys, partitions)


@given(keys=st.lists(NUMPY_TEXT, max_size=40), partitions=PARTITIONS)
def test_numpy_text(keys: list[str], partitions: int) -> None:
    """Fixed-width text (which drops trailing NULs) and objects."""
    assert by_oxbus(np.array(keys, dtype=object), partitions) == by_reference(keys, partitions)
    assert by_oxbus(np.array(keys, dtype=np.str_), partitions) == by_reference(keys, partitions)


@given(keys=BYTES, partitions=PARTITIONS)
def test_numpy_bytes(keys: list[bytes | None], partitions: int) -> None:
    """Objects that are bytes or missing."""
    assert by_oxbus(np.array(keys, dtype=object), partitions) == by_reference(keys, partitions)


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@given(keys=TEXTS, partitions=PARTITIONS)
def test_arrow_text(kind: pa.DataType, keys: list[str | None], partitions: int) -> None:
    """Every Arrow layout of text."""
    assert by_oxbus(pa.array(keys, kind), partitions) == by_reference(keys, partitions)


@pytest.mark.parametrize("kind", BINARY_TYPES, ids=str)
@given(keys=BYTES, partitions=PARTITIONS)
def test_arrow_binary(kind: pa.DataType, keys: list[bytes | None], partitions: int) -> None:
    """Every Arrow layout of bytes."""
    assert by_oxbus(pa.array(keys, kind), partitions) == by_reference(keys, partitions)


@given(keys=TEXTS, partitions=PARTITIONS)
def test_arrow_dictionary(keys: list[str | None], partitions: int) -> None:
    """A dictionary-encoded array gives one partition per row, not per entry."""
    assert by_oxbus(pa.array(keys, pa.string()).dictionary_encode(), partitions) == by_reference(keys, partitions)


@given(keys=st.lists(TEXTS, min_size=1, max_size=4), partitions=PARTITIONS)
def test_arrow_chunked(keys: list[list[str | None]], partitions: int) -> None:
    """Chunks of a column are hashed in order."""
    chunked = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in keys])
    assert by_oxbus(chunked, partitions) == by_reference([key for chunk in keys for key in chunk], partitions)


@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.dictionary(pa.int32(), pa.string())], ids=str)
@given(keys=TEXTS, start=st.integers(0, 40), length=st.integers(0, 40), partitions=PARTITIONS)
def test_sliced_arrow(kind: pa.DataType, keys: list[str | None], start: int, length: int, partitions: int) -> None:
    """A slice has an offset into its buffers; only its own rows count."""
    start = min(start, len(keys))
    plain = pa.array(keys, pa.string())
    array = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    assert by_oxbus(array.slice(start, length), partitions) == by_reference(keys[start : start + length], partitions)


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1, 2**70])
def test_partition_count_out_of_range(partitions: int) -> None:
    """The count is between 1 and 65,535."""
    with pytest.raises((ValueError, OverflowError)):
        oxbus.partition_id("a", partitions)
    with pytest.raises((ValueError, OverflowError)):
        oxbus.partition_ids(["a"], partitions)


@pytest.mark.parametrize("keys", [[1], [1.5], ["a", 2], pa.array([1, 2]), np.array([1, 2]), 7, "text", b"bytes"])
def test_keys_of_another_type(keys: Any) -> None:
    """A number is not a key, and a str is not a sequence of keys."""
    with pytest.raises((TypeError, ValueError)):
        oxbus.partition_ids(keys)
