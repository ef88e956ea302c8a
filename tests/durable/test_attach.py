# SPDX-License-Identifier: Apache-2.0
"""Rows of a bulk load are in their partition once, however often and by whomever they are attached."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus.exceptions import MessageSizeExceededError, ServiceBusError, ServiceBusQuotaExceededError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark.owned import owned_partition
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow")

PARTITION = 5
KEYS = [key for key in (f"key-{number}" for number in range(400)) if oxbus.partition_id(key) == PARTITION]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A namespace with a partitioned queue, closed."""
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    return tmp_path / "bus"


def rows(keys: list[str] = KEYS) -> Any:
    """A message for each key."""
    return pa.table({"body": [key.encode() for key in keys], "partition_key": keys})


def attach(path: Path, name: str, table: Any = None, **options: Any) -> dict[int, int]:
    """Attach as a task does: with one partition open."""
    with Namespace(path, partitions_owned={PARTITION}, durability="os", **options) as namespace:
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        return sender._attach_arrow(rows() if table is None else table, name, PARTITION)


def bodies(path: Path) -> list[str]:
    """What is in the queue, in order; it is gone then."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        return [str(message) for message in receiver]


def test_rows_are_attached_once_for_each_name(path: Path) -> None:
    """In the same process, in the next one, and after a checkpoint; another name is another load."""
    assert attach(path, "job/0") == {PARTITION: len(KEYS)}
    assert attach(path, "job/0") == {}
    with Namespace(path) as namespace:
        namespace.checkpoint()
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        assert sender._attach_arrow(rows(), "job/0", PARTITION) == {}
    assert attach(path, "job/1") == {PARTITION: len(KEYS)}
    assert bodies(path) == [*KEYS, *KEYS]


def test_no_snapshot_and_no_gap_between_tasks(path: Path) -> None:
    """Tasks close without one, their rows have consecutive numbers all the same, and the next owner finds all."""
    for task in range(3):
        with owned_partition(str(path), PARTITION, 0, "os") as namespace:
            ServiceBusClient(namespace).get_queue_sender("q")._attach_arrow(rows(), f"job/{task}", PARTITION)
    snapshots = [file.stem for file in path.glob(f"shard-{PARTITION:02}/*.snapshot")]
    assert [int(stem) for stem in snapshots] == [0]  # the one that a namespace begins with
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        numbers = [(message.sequence_number or 0) & ((1 << 48) - 1) for message in receiver]
    assert numbers == list(range(1, 3 * len(KEYS) + 1))


def test_name_holds_for_one_partition_and_one_queue(path: Path) -> None:
    """Another partition, or another queue, takes rows of the same name."""
    with Namespace(path, durability="os") as namespace:
        admin, client = ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)
        admin.create_queue("other", enable_partitioning=True)
        keys = [f"key-{number}" for number in range(100)]
        for queue in ("q", "other"):
            with client.get_queue_sender(queue) as sender:
                attached = sender._attach_arrow(rows(keys), "job/0", 0)
                assert sum(attached.values()) == 100
                assert len(attached) > 10
                assert sender._attach_arrow(rows(keys), "job/0", 0) == {}


def test_keyless_rows_go_where_the_task_says(path: Path) -> None:
    """All of a task to one partition, so that a second attempt meets the first one's name."""
    table = pa.table({"body": [b"1", b"2", b"3"]})
    assert attach(path, "job/0", table) == {PARTITION: 3}
    assert attach(path, "job/0", table) == {}
    assert bodies(path) == ["1", "2", "3"]


def test_name_is_forgotten_after_a_week(tmp_path: Path) -> None:
    """Then the same rows are another load."""
    clock = oxbus.testing.ManualClock()
    with Namespace(tmp_path / "bus", durability="os", clock=clock) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        week = 7 * 86_400
        counts = []
        for seconds in (0, week - 1, 1, 0):
            clock.advance(seconds)
            counts.append(sum(sender._attach_arrow(rows(), "job/0", PARTITION).values()))
        assert counts == [len(KEYS), 0, len(KEYS), 0]


@pytest.mark.parametrize("fault", ["eio-write", "eio-fsync", "enospc"])
def test_nothing_is_attached_by_a_failed_call(path: Path, fault: str) -> None:
    """A second attempt, in this process or the next, attaches all rows once."""
    with Namespace(path, durability="fsync") as namespace:
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        inject_fault(namespace, PARTITION, fault)
        with pytest.raises(ServiceBusError):
            sender._attach_arrow(rows(), "job/0", PARTITION)
        heal(namespace, PARTITION)
        assert sender._attach_arrow(rows(), "job/0", PARTITION) == {PARTITION: len(KEYS)}
        assert sender._attach_arrow(rows(), "job/0", PARTITION) == {}
    assert attach(path, "job/0") == {}
    assert bodies(path) == KEYS


def test_rows_that_are_there_need_no_room(tmp_path: Path) -> None:
    """A second attempt at what filled its partition finds it done; other rows are refused."""
    table = pa.table({"body": [b"x" * 200_000] * 4, "partition_key": [KEYS[0]] * 4})
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True, max_size_in_megabytes=1)
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        assert sender._attach_arrow(table, "job/0", PARTITION) == {PARTITION: 4}
        with pytest.raises(ServiceBusQuotaExceededError):
            sender._attach_arrow(table, "job/1", PARTITION)
        assert sender._attach_arrow(table, "job/0", PARTITION) == {}
        assert admin.get_queue_runtime_properties("q").total_message_count == 4


def test_copies_are_dropped_and_the_name_is_kept(tmp_path: Path) -> None:
    """Where duplicates are dropped, rows that are copies leave the name of their load behind all the same (B-219)."""
    table = pa.table({"body": [b"1", b"2"], "partition_key": [KEYS[0]] * 2, "message_id": ["a", "b"]})
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True, requires_duplicate_detection=True)
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        sender.send_arrow(table)
        assert sender._attach_arrow(table, "job/0", PARTITION) == {PARTITION: 2}
        assert sender._attach_arrow(table, "job/0", PARTITION) == {}
        assert admin.get_queue_runtime_properties("q").total_message_count == 2
    with Namespace(tmp_path / "bus", durability="os") as namespace:
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        assert sender._attach_arrow(table, "job/0", PARTITION) == {}


def test_bad_rows_leave_no_trace(path: Path) -> None:
    """An unknown column, a body of another type, a key of another session: refused, and the name is free."""
    bad: list[tuple[Any, type[Exception]]] = [
        (pa.table({"body": [b"1"], "colour": ["red"]}), ValueError),
        (pa.table({"body": [1]}), ValueError),
        (pa.table({"body": [b"1"], "session_id": ["a"], "partition_key": ["b"]}), ValueError),
    ]
    for table, error in bad:
        with pytest.raises(error):
            attach(path, "job/0", table)
    with pytest.raises(MessageSizeExceededError):
        attach(path, "job/0", pa.table({"body": [b"x" * (200 << 20)]}))
    assert attach(path, "job/0") == {PARTITION: len(KEYS)}


def test_racing_attempts_attach_once(path: Path) -> None:
    """Eight threads, as speculative tasks, with one name: one of them stores the rows."""
    with Namespace(path, durability="os") as namespace:
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        for number in range(20):
            found: list[dict[int, int]] = []
            barrier = threading.Barrier(8)

            def attempt(name: str = f"job/{number}", found: list[Any] = found, barrier: Any = barrier) -> None:
                barrier.wait()
                found.append(sender._attach_arrow(rows(), name, PARTITION))

            threads = [threading.Thread(target=attempt) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(len(it) for it in found) == [0] * 7 + [1]
    assert len(bodies(path)) == 20 * len(KEYS)
