# SPDX-License-Identifier: Apache-2.0
"""A drain produces exactly the requested columns."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus._oxbus import _Drain
from oxbus.management import ServiceBusAdministrationClient

COLUMNS = [
    "body",
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
    "application_properties",
    "scheduled_enqueue_time_utc",
    "time_to_live",
    "sequence_number",
    "partition_id",
    "enqueued_time_utc",
    "locked_until_utc",
    "delivery_count",
    "lock_token",
    "state",
    "dead_letter_reason",
    "dead_letter_error_description",
]
"""In the order of every table of messages."""


@pytest.fixture
def namespace() -> Namespace:
    """A namespace with dead letters that have every field, and some that have none."""
    namespace = Namespace(partitions=1)
    ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    client = ServiceBusClient(namespace)
    full = ServiceBusMessage(
        "body",
        message_id="id",
        partition_key="key",
        subject="subject",
        correlation_id="correlation",
        content_type="text/plain",
        to="to",
        reply_to="reply",
        application_properties={"number": 1},
        time_to_live=timedelta(hours=1),
    )
    sender = client.get_queue_sender("q")
    for message in (ServiceBusMessage("first"), full, ServiceBusMessage("last")):
        sender.send_messages(message)
    receiver = client.get_queue_receiver("q")
    for received in receiver.receive_messages(3):
        receiver.dead_letter_message(received, reason="why", error_description="in full")
    return namespace


def drained(namespace: Namespace, columns: list[str] | None) -> pa.Table:
    """The dead letters."""
    page, following = _Drain(namespace, "q", "deadletter", 0, columns).page(0, 1 << 20)
    assert following is None
    return pa.table(page)


def test_all_columns_by_default(namespace: Namespace) -> None:
    """The columns have their usual order, and a value where the message has one."""
    table = drained(namespace, None)
    assert table.schema.names == COLUMNS
    empty = {name for name in COLUMNS if table.column(name).null_count == 3}
    assert empty == {"session_id", "scheduled_enqueue_time_utc", "locked_until_utc", "lock_token"}


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_alone(namespace: Namespace, name: str) -> None:
    """A single column has the same type and values as in a drain of all columns."""
    assert drained(namespace, [name]).equals(drained(namespace, None).select([name]))


def test_order_and_repetition_change_nothing(namespace: Namespace) -> None:
    """The request is a set of columns; the contract fixes their order."""
    asked = ["state", "body", "to", "body", "message_id"]
    expected = drained(namespace, None).select(["body", "message_id", "to", "state"])
    assert drained(namespace, asked).equals(expected)


def test_drain_without_columns_returns_the_count(namespace: Namespace) -> None:
    """A drain without columns still returns the number of messages."""
    assert drained(namespace, []).shape == (3, 0)


def test_unknown_column_is_named(namespace: Namespace) -> None:
    """The error comes before anything is read."""
    with pytest.raises(ValueError, match=r"unknown column; received messages have body, .*: `colour`"):
        _Drain(namespace, "q", None, 0, ["body", "colour"])
