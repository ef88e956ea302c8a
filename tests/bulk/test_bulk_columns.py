# SPDX-License-Identifier: Apache-2.0
"""Selected columns over the bulk plane: the option `columns` of receive, peek and read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient
    from oxbus.bulk import BulkClient
    from oxbus.testing import ManualClock

SUBSETS = [
    ["body", "lock_token"],
    ["sequence_number"],
    ["state", "partition_id", "subject"],
    ["application_properties", "message_id", "enqueued_time_utc", "time_to_live"],
]


def pages(read: Callable[..., Any], partitions: int, **options: Any) -> Any:
    """Every message of every partition as one table."""
    tables = []
    for partition in range(partitions):
        number: int | None = partition << 48
        while number is not None:
            page, number = read(partition, number, **options)
            tables.append(pa.table(page))
    return pa.concat_tables(tables)


@pytest.mark.parametrize("names", SUBSETS, ids=",".join)
def test_a_peek_of_selected_columns_has_the_values_of_a_whole_one(
    bulk: BulkClient, client: ServiceBusClient, queue_name: str, clock: ManualClock, names: list[str]
) -> None:
    """Active, deferred and scheduled messages, with and without properties."""
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages([ServiceBusMessage(b"a", subject="s"), ServiceBusMessage(b"b")])
        sender.send_messages(ServiceBusMessage(b"c", application_properties={"n": 1}, time_to_live=timedelta(days=1)))
        receiver.defer_message(receiver.receive_messages(max_wait_time=0)[0])
        sender.schedule_messages(ServiceBusMessage(b"d"), clock.now() + timedelta(hours=1))
    partitions = bulk.describe(queue_name)["partitions"]

    def peek(partition: int, number: int, **options: Any) -> Any:
        return bulk.peek(queue_name, partition, number, **options)

    whole = pages(peek, partitions)
    assert set(whole["state"].to_pylist()) == {"active", "deferred", "scheduled"}
    order = [name for name in whole.column_names if name in names]
    assert pages(peek, partitions, columns=names) == whole.select(order)
    assert pages(peek, partitions, columns=names, max_bytes=1) == whole.select(order)
    as_json = pages(peek, partitions, application_properties="json")
    assert pages(peek, partitions, application_properties="json", columns=names) == as_json.select(order)
    empty = pages(peek, partitions, include_body=False, columns=["body", "state"])
    assert empty["body"].null_count == empty.num_rows == 4


def test_a_reservation_is_read_by_columns(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Pages of a reservation have the selected columns."""
    bulk.send(queue_name, rows(50))
    bulk.acquire(queue_name, "reader")
    plan = bulk.reserve(queue_name, "reader", 1, 1, max_messages=50, max_bytes=1 << 20, lock_duration=60)
    for part in plan["partitions"]:
        for first, last in part["ranges"]:
            place = (queue_name, plan["id"], 1, part["partition"], first, last)
            whole = pa.table(bulk.read(*place)[0])
            for names in SUBSETS:
                order = [name for name in whole.column_names if name in names]
                assert pa.table(bulk.read(*place, columns=names)[0]) == whole.select(order)


def test_received_columns_suffice_to_settle(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Bodies and tokens are received and settled."""
    bulk.send(queue_name, rows(50))
    seen: list[bytes] = []
    while len(seen) < 50:
        table = pa.table(bulk.receive(queue_name, max_message_count=20, columns=["body", "lock_token"]))
        assert table.column_names == ["body", "lock_token"]
        assert table.num_rows
        seen += table["body"].to_pylist()
        assert bulk.settle(queue_name, table, "complete") == []
    assert sorted(seen) == sorted(rows(50)["body"].to_pylist())
    assert bulk.describe(queue_name)["active_messages"] == 0


@pytest.mark.parametrize(
    ("names", "match"), [(["bodies"], "unknown column.*body, message_id"), ([], "columns is empty"), ([""], "unknown")]
)
def test_wrong_names_are_refused_and_receive_nothing(
    bulk: BulkClient, queue_name: str, rows: Callable[..., Any], names: list[str], match: str
) -> None:
    """The client refuses what the server would; no message is locked."""
    bulk.send(queue_name, rows(3))
    for call in (
        lambda: bulk.receive(queue_name, max_message_count=3, columns=names),
        lambda: bulk.peek(queue_name, 0, 0, columns=names),
        lambda: bulk.read(queue_name, "id", 1, 0, 0, 1, columns=names),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    assert bulk.receive(queue_name, max_message_count=3)
