# SPDX-License-Identifier: Apache-2.0
"""Browsing with a bulk client, page by page, and the numbers in `describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import MessagingEntityNotFoundError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient
    from oxbus.bulk import BulkClient
    from oxbus.management import ServiceBusAdministrationClient


def all_of(bulk: BulkClient, queue_name: str, partition: int, **options: Any) -> tuple[Any, int]:
    """Every message of a partition, and the number of pages."""
    tables = []
    number: int | None = 0
    while number is not None:
        page, number = bulk.peek(queue_name, partition, number, **options)
        tables.append(pa.table(page))
    return pa.concat_tables(tables), len(tables)


def test_pages_have_every_message_once(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """For any page size, each message is returned once, in number order, and stays in the queue."""
    bulk.send(queue_name, rows(600))
    for max_bytes in (1, 1000, 1 << 20):
        bodies: list[bytes] = []
        for partition in range(bulk.describe(queue_name)["partitions"]):
            table, pages = all_of(bulk, queue_name, partition, max_bytes=max_bytes)
            numbers = table["sequence_number"].to_pylist()
            assert numbers == sorted(set(numbers))
            assert {number >> 48 for number in numbers} <= {partition}
            assert pages == max(table.num_rows, 1) if max_bytes == 1 else pages <= table.num_rows
            bodies += table["body"].to_pylist()
        assert sorted(bodies) == sorted(str(number).encode() for number in range(600))
    assert bulk.describe(queue_name)["active_messages"] == 600


def test_bounds_are_inclusive(bulk: BulkClient, queue_name: str) -> None:
    """Both bounds are included; beyond the end there are no messages."""
    bulk.send(queue_name, pa.table({"body": [b"x"] * 10, "partition_key": ["k"] * 10}))
    described = bulk.describe(queue_name)
    (partition,) = [index for index, end in enumerate(described["ends"]) if end > 1]
    base = partition << 48
    page, following = bulk.peek(queue_name, partition, base + 3, to_sequence_number=base + 6)
    assert pa.table(page)["sequence_number"].to_pylist() == [base + number for number in (3, 4, 5, 6)]
    assert following is None
    page, following = bulk.peek(queue_name, partition, base + 11)
    assert (len(page), following) == (0, None)
    page, following = bulk.peek(queue_name, partition, base + 2, to_sequence_number=base + 1)
    assert (len(page), following) == (0, None)


def test_starts_and_ends_follow_the_messages(bulk: BulkClient, queue_name: str) -> None:
    """The end follows sent messages; the start is the first remaining message."""
    bulk.send(queue_name, pa.table({"body": [b"x"] * 3, "partition_key": ["k"] * 3}))
    before = bulk.describe(queue_name)
    (partition,) = [index for index, end in enumerate(before["ends"]) if end > 1]
    assert (before["starts"][partition], before["ends"][partition]) == (1, 4)
    table = pa.table(bulk.receive(queue_name, max_message_count=2))
    bulk.settle(queue_name, table, "complete")
    after = bulk.describe(queue_name)
    assert (after["starts"][partition], after["ends"][partition]) == (3, 4)
    bulk.receive(queue_name, max_message_count=2, receive_mode="receive_and_delete")
    empty = bulk.describe(queue_name)
    assert empty["starts"][partition] == empty["ends"][partition] == 4


def test_bodies_can_be_omitted(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """The column is present but empty."""
    bulk.send(queue_name, rows(1))
    table = pa.concat_tables(
        pa.table(bulk.peek(queue_name, partition, 0, include_body=False)[0])
        for partition in range(bulk.describe(queue_name)["partitions"])
    )
    assert table["body"].to_pylist() == [None]
    assert table["lock_token"].to_pylist() == [None]
    assert table["state"].to_pylist() == ["active"]


def test_properties_as_json_keep_their_types(bulk: BulkClient, client: ServiceBusClient, queue_name: str) -> None:
    """Numbers and booleans keep their types; types that JSON lacks become strings."""
    import json  # noqa: PLC0415

    properties: Any = {"i": 7, "f": 1.5, "t": True, "n": None, "s": 'a"b', "b": b"\x01\xff", "inf": float("inf")}
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage(b"x", application_properties=properties, partition_key="k"))
    (partition,) = [index for index, end in enumerate(bulk.describe(queue_name)["ends"]) if end > 1]
    page, _ = bulk.peek(queue_name, partition, 0, application_properties="json")
    (text,) = pa.table(page)["application_properties"].to_pylist()
    assert json.loads(text) == {**properties, "b": {"$bytes": "01ff"}, "inf": {"$double": "inf"}}
    page, _ = bulk.peek(queue_name, partition, 0)
    assert dict(pa.table(page)["application_properties"].to_pylist()[0])["i"] == "7"
    with pytest.raises(ValueError, match="a parameter is missing or wrong"):
        bulk.peek(queue_name, partition, 0, application_properties="xml")  # type: ignore[arg-type]


def test_description_has_the_incarnation_of_an_entity(bulk: BulkClient, admin: ServiceBusAdministrationClient) -> None:
    """An entity of the same name that is created later has another incarnation."""
    admin.create_queue("again", requires_duplicate_detection=True)
    first = bulk.describe("again")
    assert (first["kind"], first["requires_duplicate_detection"], first["requires_session"]) == ("queue", True, False)
    assert bulk.describe("AGAIN")["incarnation"] == first["incarnation"]
    admin.delete_queue("again")
    with pytest.raises(MessagingEntityNotFoundError):
        bulk.describe("again")
    admin.create_queue("again")
    assert bulk.describe("again")["incarnation"] != first["incarnation"]
    admin.create_topic("t")
    admin.create_subscription("t", "s")
    assert [bulk.describe(path)["kind"] for path in ("t", "t/Subscriptions/s")] == ["topic", "subscription"]


def test_wrong_pages(bulk: BulkClient, queue_name: str) -> None:
    """A partition that does not exist, a page without bytes, a negative number."""
    with pytest.raises(ValueError, match="partition"):
        bulk.peek(queue_name, 99, 0)
    with pytest.raises(ValueError, match="max_bytes"):
        bulk.peek(queue_name, 0, 0, max_bytes=0)
    with pytest.raises(ValueError, match="negative"):
        bulk.peek(queue_name, 0, -1)
