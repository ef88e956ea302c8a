# SPDX-License-Identifier: Apache-2.0
"""The demo distinguishes a redelivery after a kill from a duplicate and from a redelivery after completion."""

from __future__ import annotations

import pyarrow as pa
import pytest
from oxbus.demo.deliveries import SCHEMA, Deliveries, Delivery


def rows(*numbers: int, message_ids: dict[int, str] | None = None, delivery_count: int = 0) -> pa.Table:
    """Messages with these sequence numbers, all of partition 0."""
    ids = message_ids or {}
    return pa.table(
        {
            "message_id": [ids.get(number, f"flight-{number}") for number in numbers],
            "partition_key": ["N00001"] * len(numbers),
            "body": [b""] * len(numbers),
            "partition_id": [0] * len(numbers),
            "sequence_number": list(numbers),
            "delivery_count": [delivery_count] * len(numbers),
        },
        schema=SCHEMA,
    )


def test_row_that_was_noted_before_a_kill_counts_once() -> None:
    """Noted, not completed, and delivered again in the next run."""
    deliveries = Deliveries(
        [
            Delivery(1, 0, rows(1, 2), completed=True),
            Delivery(1, 1, rows(3, 4), completed=False),
            Delivery(2, 0, rows(4, 5, delivery_count=1), completed=True),
        ]
    )
    assert deliveries.noted_again.tolist() == [False, False, False, False, True, False]
    assert deliveries.redelivered == 2
    assert deliveries.came_back == 0
    assert deliveries.per_partition(2) == [5, 0]
    assert deliveries.per_receiver(2, 2) == [2, 2, 1, 0]


def test_row_of_several_kills_counts_once() -> None:
    """Each kill may cause one more delivery."""
    parts = [Delivery(run, 0, rows(7, delivery_count=run - 1), completed=run == 3) for run in (1, 2, 3)]
    assert Deliveries(parts).noted_again.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Delivery(1, 0, rows(1), completed=True), Delivery(2, 0, rows(1, delivery_count=1), completed=True)),
        (Delivery(1, 0, rows(1), completed=False), Delivery(1, 1, rows(1, delivery_count=1), completed=True)),
        (Delivery(1, 0, rows(1), completed=False), Delivery(2, 0, rows(1, message_ids={1: "x"}), completed=True)),
        (Delivery(1, 0, rows(1, delivery_count=2), completed=False), Delivery(2, 0, rows(1), completed=True)),
    ],
    ids=["completed", "same run", "other message", "falling count"],
)
def test_second_delivery_without_a_kill_counts_twice(first: Delivery, second: Delivery) -> None:
    """Only a kill between the note and the completion explains a second delivery."""
    deliveries = Deliveries([first, second])
    assert not deliveries.noted_again.any()
    assert deliveries.per_partition(1) == [2]


def test_message_stored_twice_counts_twice() -> None:
    """A second copy has another number, and no kill explains it."""
    copy = rows(2, message_ids={2: "flight-1"}, delivery_count=1)
    deliveries = Deliveries([Delivery(1, 0, rows(1), completed=False), Delivery(2, 0, copy, completed=True)])
    assert not deliveries.noted_again.any()


def test_message_redelivered_after_completion_is_counted() -> None:
    """A delivery after an acknowledged completion, in the same run or a later one, is counted."""
    done = Delivery(1, 0, rows(1, 2), completed=True)
    assert Deliveries([done, Delivery(1, 1, rows(2), completed=True)]).came_back == 1
    assert Deliveries([done, Delivery(2, 1, rows(1, 2), completed=False)]).came_back == 2


def test_nothing_delivered_is_no_error() -> None:
    """An empty demo has columns, too."""
    deliveries = Deliveries([])
    assert deliveries.per_partition(2) == [0, 0]
    assert deliveries.per_receiver(1, 2) == [0, 0]
    assert deliveries.came_back == deliveries.redelivered == 0
