# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that send and receive Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceiver


@pytest.fixture
def bodies() -> Callable[[int], Any]:
    """Make a table of messages with the bodies "0", "1", …."""
    pa = pytest.importorskip("pyarrow")

    def bodies(count: int) -> Any:
        return pa.table({"body": pa.array([str(number).encode() for number in range(count)], pa.binary())})

    return bodies


@pytest.fixture
def take() -> Callable[..., Any]:
    """Receive Arrow batches until nothing more comes, and return them as one table."""
    pa = pytest.importorskip("pyarrow")

    def take(receiver: ServiceBusReceiver, max_message_count: int = 1000) -> Any:
        tables = []
        empty = 0
        while empty < 3:
            table = pa.table(receiver.receive_arrow(max_message_count=max_message_count, max_wait_time=0))
            assert table.num_rows <= max_message_count
            tables.append(table)
            empty = 0 if table.num_rows else empty + 1
        return pa.concat_tables(tables)

    return take
