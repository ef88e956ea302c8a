# SPDX-License-Identifier: Apache-2.0
"""`oxbus.scan`: the messages of an entity as an Arrow stream, in process and from a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import oxbus
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from oxbus import Namespace, ServiceBusMessage
from oxbus.exceptions import (
    MessagingEntityNotFoundError,
    NamespaceInUseError,
    PartitionUnavailableError,
    ServiceBusError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus import ServiceBusClient
    from oxbus.server import Server


@pytest.fixture(params=["in process", "server"])
def source(request: pytest.FixtureRequest, namespace: Namespace, server: Server) -> Namespace | str:
    """A namespace, or the connection string of its server."""
    return namespace if request.param == "in process" else server.connection_string


@pytest.fixture
def fill(client: ServiceBusClient, queue_name: str) -> Callable[..., None]:
    """Send numbered messages."""

    def fill(count: int, **options: Any) -> None:
        rows = {"body": [f"{number:06}" for number in range(count)], "message_id": [f"m{n}" for n in range(count)]}
        with client.get_queue_sender(queue_name) as sender:
            sender.send_arrow(pa.table(rows | {name: [value] * count for name, value in options.items()}))

    return fill


def test_polars_and_pandas(source: Any, fill: Callable[..., None], queue_name: str) -> None:
    """All messages, in the order of each partition; nothing is locked or settled."""
    fill(1000, subject="s")
    scan = oxbus.scan(queue_name, source)
    frame = pl.DataFrame(scan)
    assert frame.height == 1000
    rows = pl.from_arrow(scan)  # a series of rows: polars makes frames only of tables of pyarrow there
    assert isinstance(rows, pl.Series)
    assert rows.struct.unnest().equals(frame)
    assert sorted(frame["body"].to_list()) == [f"{number:06}".encode() for number in range(1000)]
    assert frame["sequence_number"].is_sorted()
    assert frame["subject"].unique().to_list() == ["s"]
    assert "lock_token" not in frame.columns
    again = pa.table(scan).to_pandas()
    assert isinstance(again, pd.DataFrame)
    assert len(again) == 1000
    assert set(again["state"]) == {"active"}


def test_columns_and_partitions(source: Any, fill: Callable[..., None], queue_name: str) -> None:
    """Only what is named is read."""
    fill(200)
    table = pa.table(oxbus.scan(queue_name, source, columns=["sequence_number", "body"]))
    assert table.column_names == ["body", "sequence_number"]
    first = pa.table(oxbus.scan(queue_name, source, columns=["sequence_number"], partition_ids=[0]))
    assert {number >> 48 for number in first["sequence_number"].to_pylist()} == {0}


def test_an_empty_queue_has_columns(source: Any, queue_name: str) -> None:
    """And no rows."""
    table = pa.table(oxbus.scan(queue_name, source))
    assert table.num_rows == 0
    assert table.schema.field("body").type == pa.binary()


def test_each_stream_reads_what_is_there(source: Any, fill: Callable[..., None], queue_name: str) -> None:
    """A stream ends at the messages that were there when it began."""
    fill(10)
    scan = oxbus.scan(queue_name, source)
    stream = pa.RecordBatchReader.from_stream(scan)
    fill(5)
    assert sum(batch.num_rows for batch in stream) == 10
    assert pa.table(scan).num_rows == 15


def test_sub_queues_and_states(
    source: Any, client: ServiceBusClient, queue_name: str, fill: Callable[..., None]
) -> None:
    """Dead letters have a path of their own; deferred and scheduled messages have a state."""
    fill(3)
    with client.get_queue_receiver(queue_name, max_wait_time=5) as receiver:
        (first,) = receiver.receive_messages(1)
        receiver.dead_letter_message(first, reason="because")
        (second,) = receiver.receive_messages(1)
        receiver.defer_message(second)
    later = datetime(2200, 1, 1, tzinfo=UTC)
    client.get_queue_sender(queue_name).schedule_messages(ServiceBusMessage("later"), later)
    states = pa.table(oxbus.scan(queue_name, source))["state"].to_pylist()
    assert sorted(states) == ["active", "deferred", "scheduled"]
    dead = pa.table(oxbus.scan(f"{queue_name}/$deadletterqueue", source))
    assert dead["dead_letter_reason"].to_pylist() == ["because"]


def test_subscription(source: Any, client: ServiceBusClient, admin: ServiceBusAdministrationClient) -> None:
    """By its path; a topic has only what is scheduled."""
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    client.get_topic_sender("news").send_messages(ServiceBusMessage("x"))
    assert pa.table(oxbus.scan("news/Subscriptions/all", source)).num_rows == 1
    assert pa.table(oxbus.scan("news", source)).num_rows == 0


def test_wrong_arguments(source: Any, queue_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are errors of the call, not of a stream."""
    with pytest.raises(MessagingEntityNotFoundError):
        oxbus.scan("nothing", source)
    for wrong, text in (
        ({"columns": ["colour"]}, "unknown column `colour`"),
        ({"columns": []}, "columns is empty"),
        ({"partition_ids": []}, "one partition at least"),
        ({"partition_ids": [-1]}, "no negative"),
        ({"application_properties": "xml"}, "map, json or variant"),
    ):
        with pytest.raises(ValueError, match=text):
            oxbus.scan(queue_name, source, **wrong)
    with pytest.raises(ValueError, match="the entity has partitions 0 to"):
        pa.table(oxbus.scan(queue_name, source, partition_ids=[99]))
    monkeypatch.delenv("OXBUS_CONNECTION_STRING", raising=False)
    with pytest.raises(ValueError, match="OXBUS_CONNECTION_STRING"):
        oxbus.scan(queue_name)
    with pytest.raises(ValueError, match="there is no namespace in"):
        oxbus.scan(queue_name, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_sources(server: Server, fill: Callable[..., None], queue_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names the source of a call without one."""
    fill(3)
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", server.connection_string)
    assert pa.table(oxbus.scan(queue_name)).num_rows == 3


def test_a_directory(tmp_path: Path) -> None:
    """By its path or its connection string; it is free again without the scan."""
    with Namespace(tmp_path / "bus") as namespace, ServiceBusAdministrationClient(namespace) as admin:
        admin.create_queue("orders")
        oxbus.ServiceBusClient(namespace).get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
    for source in (tmp_path / "bus", str(tmp_path / "bus"), f"Endpoint={(tmp_path / 'bus').as_uri()}"):
        assert pa.table(oxbus.scan("orders", source)).num_rows == 1
    try:
        Namespace(tmp_path / "bus").close()
    except NamespaceInUseError:
        pytest.fail("a scan that is gone keeps the directory")


def test_a_queue_that_is_deleted_under_the_stream(
    source: Any, admin: ServiceBusAdministrationClient, fill: Callable[..., None], queue_name: str
) -> None:
    """The stream ends with an error that names the queue."""
    fill(40_000, content_type="x" * 100)
    stream = pa.RecordBatchReader.from_stream(oxbus.scan(queue_name, source))
    stream.read_next_batch()
    admin.delete_queue(queue_name)
    with pytest.raises((pa.ArrowException, OSError, ServiceBusError), match=queue_name):
        list(stream)


def test_a_partition_out_of_service(tmp_path: Path) -> None:
    """An error, not silently fewer messages; the other partitions can be named."""
    with Namespace(tmp_path / "bus", partitions=4) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("wide", enable_partitioning=True)
        sender = oxbus.ServiceBusClient(namespace).get_queue_sender("wide")
        keys = [f"key-{number}" for number in range(160)]
        sender.send_arrow(pa.table({"body": ["x"] * 160, "partition_key": keys}))
        lost = [key for key in keys if oxbus.partition_id(key, 4) == 1]
        inject_fault(namespace, 1, "eio-write")
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("x", partition_key=lost[0]))
        with pytest.raises((PartitionUnavailableError, pa.ArrowException, OSError), match="once it is healed"):
            pa.table(oxbus.scan("wide", namespace))
        assert pa.table(oxbus.scan("wide", namespace, partition_ids=[0, 2, 3])).num_rows == 160 - len(lost)
        heal(namespace, 1)
        # The effect of the failed send is unknown.
        assert pa.table(oxbus.scan("wide", namespace)).num_rows in {160, 161}


def test_batches_are_small(source: Any, fill: Callable[..., None], queue_name: str) -> None:
    """A reader gets a page at a time, however long the queue is."""
    fill(100_000, correlation_id="c" * 100)
    stream = pa.RecordBatchReader.from_stream(oxbus.scan(queue_name, source))
    largest = rows = 0
    for batch in stream:
        rows += batch.num_rows
        largest = max(largest, batch.nbytes)
    assert rows == 100_000
    assert largest < 8 << 20


def test_a_frame_goes_back(source: Any, client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
    """What polars made of a scan can be sent to another queue, whatever types it prefers."""
    one, other = make_queue("one"), make_queue("other")
    client.get_queue_sender(one).send_arrow(pa.table({"body": ["a", "b"], "subject": ["x", None]}))
    frame = pl.DataFrame(oxbus.scan(one, source, columns=["body", "subject"]))
    changed = frame.with_columns(pl.col("subject").fill_null("none").cast(pl.Categorical))
    client.get_queue_sender(other).send_arrow(changed)
    assert sorted(pa.table(oxbus.scan(other, source))["subject"].to_pylist()) == ["none", "x"]
