# SPDX-License-Identifier: Apache-2.0
"""A Spark task that owns a partition with messages on disk drains the messages that a receiver would get."""

from __future__ import annotations

import itertools
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from durable_bus import copy_alive
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from oxbus._oxbus import _BulkLoad, _Drain
from oxbus.exceptions import PartitionUnavailableError
from oxbus.management import ServiceBusAdministrationClient
from stored_files import flip_bit, places_of, shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARTITIONS = 2
LATER = timedelta(days=3650)
LENGTHS = (0, 1, 20, 100, 1024, 300_000)
"""Some bodies are too short to stay on disk, one is longer than a single read."""


def body(number: int) -> str:
    """A unique body; lengths vary."""
    text = f"<{number:06}>"
    return (text * (LENGTHS[number % len(LENGTHS)] // len(text) + 1))[: LENGTHS[number % len(LENGTHS)]] + text


def send(path: Path, numbers: range, key: str = "k") -> None:
    """Send numbered bodies, which stay in the journal because the namespace ends by a crash."""
    left_behind = path.with_name("left behind")
    with Namespace(path, durability="os") as namespace:
        sender = ServiceBusClient(namespace).get_queue_sender("q")
        sender.send_messages([ServiceBusMessage(body(number), partition_key=key) for number in numbers])
        copy_alive(path, left_behind)
    shutil.rmtree(path)
    left_behind.rename(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A namespace with an empty queue, closed."""
    with Namespace(tmp_path / "bus", partitions=PARTITIONS, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    return tmp_path / "bus"


def pages(
    namespace: Namespace, partition: int, sub_queue: str | None = None, size: int = 1 << 16
) -> Iterator[pa.Table]:
    """The ready messages of a partition, page by page."""
    drain = _Drain(namespace, "q", sub_queue, partition)
    number: int | None = 0
    while number is not None:
        page, number = drain.page(number, size)
        yield pa.table(page)


def drained(path: Path, sub_queue: str | None = None, size: int = 1 << 16) -> list[str]:
    """The bodies that the tasks of a drain return, partition by partition."""
    bodies = []
    for partition in range(PARTITIONS):
        with Namespace._own(path, partition) as namespace:
            for page in pages(namespace, partition, sub_queue, size):
                bodies += [it.decode() for it in page.column("body").to_pylist()]
    return bodies


def received(path: Path, **options: Any) -> list[str]:
    """The bodies that a receiver gets, in the same order, from a namespace that has them in memory."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        messages = client.get_queue_receiver("q", max_wait_time=0, **options).receive_messages(10_000)
    messages.sort(key=lambda message: message.sequence_number or 0)
    return [str(message) for message in messages]


def load(path: Path, numbers: range) -> None:
    """Attach rows to both partitions; the next open takes them over."""
    rows = pa.table({"body": [body(number) for number in numbers], "partition_key": [str(it) for it in numbers]})
    loading = _BulkLoad(path, "q", f"load of {numbers}", durability="os")
    loading.push(rows)
    loading.finish(10)


@pytest.mark.parametrize("size", [1, 1 << 16, 1 << 30])
def test_all_ready_messages_are_drained(path: Path, size: int) -> None:
    """From a snapshot, from journals of several owners, and from bulk loads, taken over or not."""
    send(path, range(100))
    Namespace(path).close()
    assert next(shard(path, 0).parent.rglob("*.snapshot"), None)
    for first, key in ((100, "k"), (200, "other")):
        send(path, range(first, first + 100), key)
    load(path, range(300, 400))
    Namespace(path, durability="os")._close_as_it_is()
    load(path, range(400, 500))
    found = drained(path, size=size)
    assert sorted(found) == sorted(body(number) for number in range(500))
    assert found == received(path)


def test_messages_that_are_not_ready_stay_complete(path: Path) -> None:
    """Deferred, scheduled and dead-lettered messages keep their bodies, also when they move while on disk."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages([ServiceBusMessage(body(number), partition_key="k") for number in range(60)])
            sender.schedule_messages(ServiceBusMessage(body(60), partition_key="k"), datetime.now(UTC) + LATER)
        receiver = client.get_queue_receiver("q", max_wait_time=0)
        taken = receiver.receive_messages(20)
        partition = taken[0].partition_id or 0
        for message in taken[:10]:
            receiver.defer_message(message)
        for message in taken[10:]:
            receiver.dead_letter_message(message, reason="tested")
    with Namespace._own(path, partition) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0)
        (waiting,) = pages(namespace, partition, size=1 << 30)
        assert waiting.column("body").to_pylist() == [body(number).encode() for number in range(20, 60)]
        (dead,) = pages(namespace, partition, "deadletter", size=1 << 30)
        assert dead.column("body").to_pylist() == [body(number).encode() for number in range(10, 20)]
        assert set(dead.column("dead_letter_reason").to_pylist()) == {"tested"}
        numbers = waiting.column("sequence_number").combine_chunks()
        drain = _Drain(namespace, "q", None, partition)
        assert drain.settle(numbers.slice(0, 10), "defer") == 10
        assert drain.settle(numbers.slice(10, 10), "dead_letter", "moved") == 10
        assert drain.settle(numbers.slice(20, 10), "complete") == 10
        # A receiver reads them one by one.
        assert [str(message) for message in receiver.receive_messages(100)] == [body(it) for it in range(50, 60)]
        deferred = [message.sequence_number or 0 for message in taken[:10]] + numbers.slice(0, 10).to_pylist()
        fetched = receiver.receive_deferred_messages(deferred)
        assert [str(message) for message in fetched] == [body(it) for it in itertools.chain(range(10), range(20, 30))]
        (scheduled,) = [message for message in receiver.peek_messages(100) if message.state.name == "SCHEDULED"]
        assert str(scheduled) == body(60)
    assert received(path, sub_queue=ServiceBusSubQueue.DEAD_LETTER) == [
        body(it) for it in itertools.chain(range(10, 20), range(30, 40))
    ]


def test_damage_is_an_error_and_nothing_is_lost(path: Path) -> None:
    """A body that changed after the open is not delivered; once it is restored, all messages are delivered."""
    send(path, range(50))
    partition = next(it for it in range(PARTITIONS) if next(shard(path, it).glob("*.journal"), None))
    with Namespace._own(path, partition) as namespace:
        ((file, position),) = places_of(shard(path, partition), body(40).encode())
        flip_bit(file, position + 3)
        with pytest.raises(
            PartitionUnavailableError, match="could not be read back: a message on disk fails its checksum"
        ):
            list(pages(namespace, partition))
        (health,) = [it for it in namespace.partition_health() if it.partition_id == partition]
        assert (health.status, "read back" in (health.reason or "")) == ("offline", True)
        flip_bit(file, position + 3)
    assert drained(path) == [body(number) for number in range(50)]


def test_a_drain_needs_memory_for_a_page(path: Path, run_python: Callable[..., str]) -> None:
    """Draining a partition with 96 MiB grows the process by less than half of that."""
    size = 96 << 20
    with Namespace(path, durability="os") as namespace, ServiceBusClient(namespace).get_queue_sender("q") as sender:
        for _ in range(size >> 20):
            sender.send_messages([ServiceBusMessage(bytes(8192), partition_key="k") for _ in range(128)])
    printed = run_python(
        """
        from oxbus._oxbus import _Drain

        def peak():
            fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
            return int(fields["VmHWM"].split()[0]) * 1024

        Namespace(sys.argv[2]).close()
        base, total = peak(), 0
        for partition in range(2):
            namespace = Namespace._own(sys.argv[1], partition)
            drain, number = _Drain(namespace, "q", None, partition, ["body"]), 0
            while number is not None:
                page, number = drain.page(number, 1 << 20)
                total += 8192 * len(page)
            namespace.close()
        print("drained", total, peak() - base)
        """,
        path,
        path.with_name("other"),
    )
    total, grown = map(int, next(line for line in printed.splitlines() if line.startswith("drained")).split()[1:])
    assert total == size
    assert grown < size // 2, printed
