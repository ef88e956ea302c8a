# SPDX-License-Identifier: Apache-2.0
"""Receiving and settling by a bulk client."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.exceptions import InvalidOperationError, MessagingEntityNotFoundError
from signatures import token

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient
    from oxbus.bulk import BulkClient
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


def take(bulk: BulkClient, queue_name: str, count: int, **options: Any) -> Any:
    """Receive `count` messages as one table."""
    tables: list[Any] = []
    while sum(table.num_rows for table in tables) < count:
        table = pa.table(bulk.receive(queue_name, max_message_count=count, **options))
        assert table.num_rows, "messages are missing"
        tables.append(table)
    return pa.concat_tables(tables)


def test_columns_are_those_of_receive_arrow(
    bulk: BulkClient, client: ServiceBusClient, queue_name: str, rows: Callable[..., Any]
) -> None:
    """The same names and types, with or without messages."""
    with client.get_queue_receiver(queue_name) as receiver:
        expected = pa.table(receiver.receive_arrow(max_wait_time=0)).schema
    assert pa.table(bulk.receive(queue_name, max_message_count=1)).schema == expected
    bulk.send(queue_name, rows(3))
    assert take(bulk, queue_name, 3).schema == expected


def test_settled_messages_are_gone(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Complete by table, by column, and by a list of tokens."""
    bulk.send(queue_name, rows(9))
    table = take(bulk, queue_name, 9)
    assert bulk.settle(queue_name, table.slice(0, 3), "complete") == []
    assert bulk.settle(queue_name, table.slice(3, 3)["lock_token"], "complete") == []
    assert bulk.settle(queue_name, table.slice(6, 3)["lock_token"].to_pylist(), "complete") == []
    assert bulk.describe(queue_name)["active_messages"] == 0


def test_lost_locks_are_named(bulk: BulkClient, queue_name: str, rows: Callable[..., Any], clock: ManualClock) -> None:
    """Settled, expired and foreign tokens are returned as positions; the others are settled."""
    bulk.send(queue_name, rows(4))
    tokens = take(bulk, queue_name, 4)["lock_token"].to_pylist()
    assert bulk.settle(queue_name, [tokens[1]], "complete") == []
    assert bulk.settle(queue_name, [tokens[0], tokens[1], b"0" * 16, tokens[2]], "complete") == [1, 2]
    clock.advance(3600)
    assert bulk.settle(queue_name, [tokens[3]], "complete") == [0]
    assert bulk.settle(queue_name, [], "complete") == []


def test_other_outcomes(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Abandoned messages are delivered again, deferred ones are not, dead letters have a reason."""
    bulk.send(queue_name, rows(3))
    tokens = take(bulk, queue_name, 3)["lock_token"].to_pylist()
    bulk.settle(queue_name, tokens[:1], "abandon")
    bulk.settle(queue_name, tokens[1:2], "defer")
    bulk.settle(queue_name, tokens[2:], "dead_letter", reason="bad", description="büd; " * 800)
    assert take(bulk, queue_name, 1)["delivery_count"].to_pylist() == [1]
    dead = take(bulk, f"{queue_name}/$DeadLetterQueue", 1)
    assert dead["dead_letter_reason"].to_pylist() == ["bad"]
    assert dead["dead_letter_error_description"].to_pylist() == ["büd; " * 800]
    assert bulk.settle(f"{queue_name}/$deadletterqueue", dead, "complete") == []


def test_receive_and_delete_leaves_nothing(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Afterwards there is no lock and no message."""
    bulk.send(queue_name, rows(3))
    table = take(bulk, queue_name, 3, receive_mode="receive_and_delete")
    assert table["lock_token"].null_count == 3
    assert bulk.describe(queue_name)["active_messages"] == 0


def test_wait_ends_with_the_first_message(bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """A waiting receive gets messages that are sent during the wait."""
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.append(len(bulk.receive(queue_name, max_message_count=5, max_wait_time=60)))
    )
    waiting.start()
    bulk.send(queue_name, rows(1))
    waiting.join(60)
    assert found == [1]


def test_many_messages_are_returned_by_one_receive(bulk: BulkClient, queue_name: str) -> None:
    """More than one chunk of a stream: each message once."""
    bodies = [str(number).encode() * 100 for number in range(20_000)]
    bulk.send(queue_name, pa.table({"body": bodies}))
    table = take(bulk, queue_name, len(bodies))
    assert sorted(table["body"].to_pylist()) == sorted(bodies)
    assert bulk.settle(queue_name, table, "complete") == []


def test_messages_of_a_broken_answer_are_released(bulk: BulkClient, queue_name: str, server: Any) -> None:
    """A client that disconnects in the middle of a large answer holds no locks, and no delivery is counted."""
    import socket  # noqa: PLC0415

    count = 40_000
    bulk.send(queue_name, pa.table({"body": [b"x" * 1024] * count}))
    with socket.create_connection((server.host, server.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        query = f"entity={queue_name}&max_message_count={count}&max_wait_time_ms=0&receive_mode=peek_lock"
        head = f"POST /$bulk/v1/receive?{query} HTTP/1.1\r\nhost: x\r\nauthorization: {token('sb://x')}\r\n"
        connection.sendall(f"{head}content-length: 0\r\n\r\n".encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 200")
    found = 0
    while found < count:
        table = pa.table(bulk.receive(queue_name, max_message_count=count, max_wait_time=60))
        assert set(table["delivery_count"].to_pylist()) == {0}
        found += table.num_rows
    assert found == count


def test_wrong_arguments(
    bulk: BulkClient, queue_name: str, admin: ServiceBusAdministrationClient, rows: Callable[..., Any]
) -> None:
    """Each error names the valid values."""
    with pytest.raises(MessagingEntityNotFoundError):
        bulk.receive("missing", max_message_count=1)
    with pytest.raises(ValueError, match="max_message_count"):
        bulk.receive(queue_name, max_message_count=0)
    with pytest.raises(ValueError, match="max_wait_time_ms"):
        bulk.receive(queue_name, max_message_count=1, max_wait_time=4000)
    with pytest.raises(ValueError, match="unknown receive_mode"):
        bulk.receive(queue_name, max_message_count=1, receive_mode="peek")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown outcome"):
        bulk.settle(queue_name, [], "burn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only a dead-lettered message"):
        bulk.settle(queue_name, [], "complete", reason="done")
    with pytest.raises(ValueError, match="16 bytes"):
        bulk.settle(queue_name, [b"short"], "complete")
    with pytest.raises(ValueError, match="lock_token"):
        bulk.settle(queue_name, rows(1), "complete")
    admin.create_queue("sessions", requires_session=True)
    with pytest.raises(InvalidOperationError):
        bulk.receive("sessions", max_message_count=1)
