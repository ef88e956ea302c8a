# SPDX-License-Identifier: Apache-2.0
"""Resident bytes per stored message, kept as extra information beside the time it took to fill the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import memory
import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

MESSAGES = 1_000_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize("contender", memory.CONTENDERS)
def test_bytes_per_message(benchmark: BenchmarkFixture, contender: str) -> None:
    """A message takes at least its own bytes."""
    benchmark.group = "memory/100B/1m"
    pedantic: Any = benchmark.pedantic  # it has no types
    size = pedantic(memory.bytes_per_message, args=(contender, MESSAGES), rounds=1)
    benchmark.extra_info["bytes_per_message"] = size
    assert size > memory.BODY_BYTES
