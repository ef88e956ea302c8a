# SPDX-License-Identifier: Apache-2.0
"""Rows of a bulk load are in their partition exactly once, however often they are attached and by any process."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus._oxbus import _BulkLoad
from oxbus.exceptions import (
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    NamespaceInUseError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import EntityStatus, ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

pa = pytest.importorskip("pyarrow")

PARTITION = 5
KEYS = [key for key in (f"key-{number}" for number in range(400)) if oxbus.partition_id(key) == PARTITION]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A namespace with a partitioned queue, closed."""
    return make(tmp_path / "bus")


def make(path: Path, **options: Any) -> Path:
    """Make a namespace with a partitioned queue."""
    with Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True, **options)
    return path


def rows(keys: list[str] = KEYS) -> Any:
    """A message for each key."""
    return pa.table({"body": [key.encode() for key in keys], "partition_key": keys})


def load(path: Path, name: str, *tables: Any, wait_time: float = 0, **options: Any) -> list[tuple[int, int, bool]]:
    """Load as a Spark task does."""
    loading = _BulkLoad(path, "q", name, keyless=PARTITION, **{"durability": "os", **options})
    for table in tables or (rows(),):
        loading.push(table)
    return loading.finish(wait_time)


def bodies(path: Path) -> list[str]:
    """Receive and delete all messages of the queue; return their bodies in order."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        assert namespace.recovery
        assert namespace.recovery.waiting_loads == []
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        return [str(message) for message in receiver]


ATTACHED = [(PARTITION, len(KEYS), True)]
KNOWN = [(PARTITION, len(KEYS), False)]


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_rows_are_attached_once_for_each_name(path: Path, durability: str) -> None:
    """Before the first open of the partition, after it, and after a checkpoint; another name is another load."""
    assert load(path, "job/0", durability=durability) == ATTACHED
    assert load(path, "job/0", durability=durability) == KNOWN
    with Namespace(path) as namespace:
        namespace.checkpoint()
    assert load(path, "job/0", durability=durability) == KNOWN
    assert load(path, "job/1", durability=durability) == ATTACHED
    assert bodies(path) == [*KEYS, *KEYS]
    assert load(path, "job/1", durability=durability) == KNOWN
    assert bodies(path) == []


def test_rows_have_consecutive_numbers(path: Path) -> None:
    """The numbers stay consecutive with tasks in sequence and a send between two of them."""
    for task in range(2):
        load(path, f"job/{task}")
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        client.get_queue_sender("q").send_arrow(rows())
    load(path, "job/2")
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        numbers = [(message.sequence_number or 0) & ((1 << 48) - 1) for message in receiver]
    assert numbers == list(range(1, 4 * len(KEYS) + 1))


def test_several_tables_for_all_partitions(path: Path) -> None:
    """Each row goes to the partition of its key, and each partition keeps the order of the rows."""
    keys = [f"key-{number % 100}" for number in range(1000)]
    tables = [
        pa.table({"body": [str(number) for number in range(at, at + 250)], "partition_key": keys[at : at + 250]})
        for at in range(0, 1000, 250)
    ]
    loaded = load(path, "job/0", *tables)
    assert sum(count for _, count, _ in loaded) == 1000
    assert len(loaded) > 10
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        found: dict[int | None, list[int]] = {}
        for message in receiver:
            assert message.partition_id == oxbus.partition_id(message.partition_key or "")
            found.setdefault(message.partition_id, []).append(int(str(message)))
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(1000))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_nothing_is_visible_before_the_end(path: Path) -> None:
    """A task that dies leaves nothing visible, and the next attempt is not treated as its copy."""
    loading = _BulkLoad(path, "q", "job/0", durability="os")
    loading.push(rows())
    assert bodies(path) == []
    del loading
    script = (
        "import os, sys, pyarrow as pa; from oxbus._oxbus import _BulkLoad\n"
        "loading = _BulkLoad(sys.argv[1], 'q', 'job/0', durability='os')\n"
        "loading.push(pa.table({'body': [b'x' * 300_000] * 10, 'partition_key': ['a'] * 10}))\n"
        "os._exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 7
    assert list(path.glob("shard-*/attached/*.tmp")) != []
    assert bodies(path) == []
    assert load(path, "job/0") == ATTACHED
    assert bodies(path) == KEYS


def test_keyless_rows_go_to_the_partition_of_the_task(path: Path) -> None:
    """All rows of a task go to one partition, so that a second attempt meets the name of the first."""
    table = pa.table({"body": [b"1", b"2", b"3"]})
    assert load(path, "job/0", table) == [(PARTITION, 3, True)]
    assert load(path, "job/0", table) == [(PARTITION, 3, False)]
    assert bodies(path) == ["1", "2", "3"]


def test_name_holds_for_one_queue(path: Path) -> None:
    """Another queue takes rows of the same name."""
    with Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("other", enable_partitioning=True)
    assert load(path, "job/0") == ATTACHED
    loading = _BulkLoad(path, "other", "job/0", durability="os")
    loading.push(rows())
    assert loading.finish(0) == ATTACHED


def test_load_waits_for_a_partition_that_is_open_elsewhere(path: Path) -> None:
    """The task waits, names the owner, and a second attempt continues where the first stopped."""
    keys = [f"key-{number}" for number in range(100)]
    last = max(oxbus.partition_id(key) for key in keys)
    with Namespace(path, partitions_owned={last}), pytest.raises(NamespaceInUseError, match="pid"):
        load(path, "job/0", rows(keys))
    loaded = load(path, "job/0", rows(keys))
    assert [partition for partition, _, attached in loaded if attached] == [last]
    namespace = Namespace(path, partitions_owned={PARTITION})
    closing = threading.Timer(0.3, namespace.close)
    closing.start()
    assert load(path, "job/1", wait_time=60) == ATTACHED
    closing.join()
    assert sorted(bodies(path)) == sorted([*keys, *KEYS])


def test_only_the_owner_of_a_partition_takes_its_rows_over(path: Path) -> None:
    """A process that owns other partitions does not take them over."""
    load(path, "job/0")
    with Namespace(path, partitions_owned={PARTITION + 1}):
        pass
    with Namespace(path, partitions_owned={PARTITION}, durability="os") as namespace:
        client = ServiceBusClient(namespace)
        receiver = client.get_queue_receiver("q", max_wait_time=0, receive_mode="receiveanddelete")
        assert [str(message) for message in receiver] == KEYS


def test_loads_follow_the_rules_of_sends(tmp_path: Path) -> None:
    """Sessions, statuses and kinds of entities: rejected when the load begins, or with the row."""
    sessions = make(tmp_path / "sessions", requires_session=True)
    with pytest.raises(InvalidOperationError, match="session"):
        load(sessions, "job/0")
    assert load(sessions, "job/0", pa.table({"body": [b"1"], "session_id": [KEYS[0]]})) == [(PARTITION, 1, True)]
    disabled = make(tmp_path / "disabled", status=EntityStatus.SEND_DISABLED)
    with pytest.raises(MessagingEntityDisabledError):
        load(disabled, "job/0")
    plain = make(tmp_path / "plain")
    with Namespace(plain) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("plain")
        ServiceBusAdministrationClient(namespace).create_topic("t", enable_partitioning=True)
    for entity in ("plain", "t"):
        with pytest.raises(InvalidOperationError, match="partitioned queue"):
            _BulkLoad(plain, entity, "job/0")


def test_rows_are_taken_over_by_a_queue_that_rejects_new_messages(tmp_path: Path) -> None:
    """The rows were accepted: a full queue takes them over nevertheless, and rejects new ones."""
    path = make(tmp_path / "bus", max_size_in_megabytes=1)
    table = pa.table({"body": [b"x" * 200_000] * 10, "partition_key": [KEYS[0]] * 10})
    load(path, "job/0", table)
    with Namespace(path, durability="os") as namespace:
        admin, client = ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)
        assert admin.get_queue_runtime_properties("q").total_message_count == 10
        with pytest.raises(ServiceBusQuotaExceededError):
            client.get_queue_sender("q").send_arrow(table)
    load(path, "job/1", rows())
    with Namespace(path, durability="os") as namespace:
        assert ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(
            "q"
        ).total_message_count == 10 + len(KEYS)


def test_rows_of_a_deleted_queue_are_deleted(path: Path) -> None:
    """A new queue with the same name does not get them."""
    load(path, "job/0")
    with Namespace(path, partitions_owned={0}):
        pass
    with Namespace(path) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.delete_queue("q")
        admin.create_queue("q", enable_partitioning=True)
        assert admin.get_queue_runtime_properties("q").total_message_count == 0
    assert bodies(path) == []
    assert load(path, "job/0") == ATTACHED


def test_times_count_from_taking_over(path: Path) -> None:
    """Rows that are due later are scheduled, and the time to live begins when the rows become messages."""
    clock = ManualClock()
    due = clock.now() + timedelta(seconds=100)
    table = pa.table(
        {
            "body": ["now", "later"],
            "partition_key": [KEYS[0]] * 2,
            "scheduled_enqueue_time_utc": pa.array([None, due], pa.timestamp("us", "UTC")),
            "time_to_live": pa.array([timedelta(seconds=50), None], pa.duration("us")),
        }
    )
    load(path, "job/0", table)
    with Namespace(path, clock=clock, durability="os") as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        counts = admin.get_queue_runtime_properties("q")
        assert (counts.active_message_count, counts.scheduled_message_count) == (1, 1)
        clock.advance(101)
        receiver = ServiceBusClient(namespace).get_queue_receiver("q", max_wait_time=0)
        assert [str(message) for message in receiver.receive_messages(10)] == ["later"]


def test_copies_are_dropped(tmp_path: Path) -> None:
    """With duplicate detection, a row that repeats a stored message is dropped (B-219)."""
    path = make(tmp_path / "bus", requires_duplicate_detection=True)
    table = pa.table({"body": [b"1", b"2"], "partition_key": [KEYS[0]] * 2, "message_id": ["a", "b"]})
    with Namespace(path, durability="os") as namespace:
        ServiceBusClient(namespace).get_queue_sender("q").send_arrow(table)
    load(path, "job/0", table)
    assert bodies(path) == ["1", "2"]


def test_bad_rows_store_nothing(path: Path) -> None:
    """An unknown column, a body of another type, a key of another session: rejected, and the name stays free."""
    bad: list[tuple[Any, type[Exception], str]] = [
        (pa.table({"body": [b"1"], "colour": ["red"]}), ValueError, "colour"),
        (pa.table({"body": [1]}), ValueError, "body"),
        (pa.table({"body": [b"1"], "session_id": ["a"], "partition_key": ["b"]}), ValueError, "row 0"),
        (pa.table({"body": [b"x" * (200 << 20)]}), MessageSizeExceededError, "too large"),
    ]
    for table, error, text in bad:
        with pytest.raises(error, match=text):
            load(path, "job/0", table)
    assert [*path.glob("shard-*/attached/*")] == []
    assert load(path, "job/0") == ATTACHED


def test_damaged_file_is_reported_and_stays(path: Path) -> None:
    """The partition opens with its intact rows; the report names the file, and a correct copy of it is taken over."""
    load(path, "job/0")
    # Two loads of the same millisecond have their files in any order.
    (first,) = path.glob("shard-*/attached/*.stage")
    load(path, "job/1", rows(KEYS[:3]))
    whole = first.read_bytes()
    first.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    for _ in range(2):
        with Namespace(path) as namespace:
            assert namespace.recovery
            (waiting,) = namespace.recovery.waiting_loads
            assert first.name in waiting
            assert "damaged" in waiting
            counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q")
            assert counts.total_message_count == 3
    first.write_bytes(whole)
    assert bodies(path) == [*KEYS[:3], *KEYS]


def test_a_file_that_appears_twice_is_taken_over_once(path: Path) -> None:
    """This happens after a crash between storing its rows and removing it."""
    load(path, "job/0")
    (file,) = path.glob("shard-*/attached/*.stage")
    whole = file.read_bytes()
    assert bodies(path) == KEYS
    file.write_bytes(whole)
    assert bodies(path) == []
    assert not file.exists()


def test_racing_attempts_attach_once(path: Path) -> None:
    """Eight threads use one name, as speculative tasks do: one of them stores the rows."""
    for number in range(10):
        found: list[bool] = []
        barrier = threading.Barrier(8)

        def attempt(name: str = f"job/{number}", found: list[bool] = found, barrier: Any = barrier) -> None:
            barrier.wait()
            found.extend(attached for _, _, attached in load(path, name, wait_time=60))

        threads = [threading.Thread(target=attempt) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [False] * 7 + [True]
    assert len(bodies(path)) == 10 * len(KEYS)


def test_load_that_has_ended(path: Path) -> None:
    """A load that has ended cannot continue, and the rows that it attached stay."""
    loading = _BulkLoad(path, "q", "job/0", durability="os")
    loading.push(rows())
    loading.finish(0)
    for call in (lambda: loading.push(rows()), lambda: loading.finish(0)):
        with pytest.raises(InvalidOperationError, match="ended"):
            call()
    assert bodies(path) == KEYS


def test_name_is_forgotten_after_a_week(path: Path) -> None:
    """The week starts at the open that took the rows over, here after six days; then the same rows are another load."""
    load(path, "job/0")
    clock = ManualClock(datetime.now(tz=UTC))
    for days, outcome in ((6, KNOWN), (2, KNOWN), (6, ATTACHED)):
        clock.advance(days * 86_400)
        with Namespace(path, clock=clock, durability="os"):
            pass
        assert load(path, "job/0") == outcome
    with Namespace(path, clock=clock, durability="os") as namespace:
        counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q")
        assert counts.total_message_count == 2 * len(KEYS)
