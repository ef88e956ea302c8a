# SPDX-License-Identifier: Apache-2.0
"""`partitions_owned`: several processes share a namespace, and each owns some partitions."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import PARTITIONS, Bus, bodies
from oxbus import Namespace
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityNotFoundError,
    NamespaceInUseError,
    PartitionUnavailableError,
)
from oxbus.management import EntityAvailabilityStatus

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

LIVENESS_SECONDS = 120

OWN_SOME = """
owned = {int(number) for number in sys.argv[2].split(",")}
namespace = Namespace(sys.argv[1], partitions_owned=owned)
client = ServiceBusClient(namespace)
keys = [f"key-{number}" for number in range(200)]
with client.get_queue_sender("q") as sender:
    for partition in owned:
        key = next(key for key in keys if oxbus.partition_id(key, 4) == partition)
        for number in range(5):
            sender.send_messages(ServiceBusMessage(f"{partition}.{number}", partition_key=key))
print("owned", flush=True)
sys.stdin.readline()
namespace.close()
"""


@pytest.fixture
def shared(bus: Bus) -> Bus:
    """A closed namespace with a partitioned queue that holds one message in each partition."""
    bus.admin.create_queue("q", enable_partitioning=True)
    bus.send(*(f"old {number}" for number in range(PARTITIONS)))
    bus.close()
    return bus


@pytest.fixture
def other_half(shared: Bus, make_bus: Callable[..., Bus]) -> Bus:
    """The directory of `shared`, for a second owner in this process; closed."""
    return make_bus(shared.path.name)


def test_owner_of_some_partitions_works_on_those(shared: Bus, key_of: Callable[..., str]) -> None:
    """Keys of owned partitions work, others are unavailable, keyless messages go to owned partitions (B-073, B-074)."""
    shared.open(partitions_owned={1, 3})
    for partition_id in range(PARTITIONS):
        if partition_id in {1, 3}:
            shared.send("keyed", partition_key=key_of(partition_id))
        else:
            with pytest.raises(PartitionUnavailableError) as refusal:
                shared.send("refused", partition_key=key_of(partition_id))
            assert refusal.value.is_transient
    shared.send(*(f"keyless {number}" for number in range(10)))
    messages = shared.take()
    assert {message.partition_id for message in messages} == {1, 3}
    assert len(messages) == 2 + 2 + 10
    assert {message.partition_id for message in shared.peek()} == {1, 3}
    shared.receiver().complete_messages(messages)
    shared.close()
    shared.open()
    assert {message.partition_id for message in shared.take()} == {0, 2}


def test_health_and_counts_show_partitions_that_are_not_owned(shared: Bus) -> None:
    """Partitions of other owners read offline with a reason, the queue Limited, and the sums lack them (B-097)."""
    namespace = shared.open(partitions_owned=[0])
    health = namespace.partition_health()
    assert [entry.partition_id for entry in health] == list(range(PARTITIONS))
    assert [entry.status for entry in health] == ["healthy", "offline", "offline", "offline"]
    assert [bool(entry.reason) for entry in health] == [False, True, True, True]
    runtime = shared.runtime()
    assert runtime.availability_status == EntityAvailabilityStatus.LIMITED
    assert runtime.total_message_count == 1
    assert [partition.available for partition in runtime.partitions] == [True, False, False, False]
    assert namespace.recovery is not None
    assert list(namespace.recovery.corrupt_partitions) == []


def test_entities_are_seen_and_not_changed(shared: Bus) -> None:
    """Only an owner of all partitions creates, updates and deletes entities; the others can read them (B-096)."""
    shared.open(partitions_owned={0, 1, 2})
    queue = shared.admin.get_queue("q")
    queue.max_delivery_count = 3
    for call in (
        lambda: shared.admin.create_queue("new"),
        lambda: shared.admin.create_queue("new", enable_partitioning=True),
        lambda: shared.admin.update_queue(queue),
        lambda: shared.admin.delete_queue("q"),
    ):
        with pytest.raises(PartitionUnavailableError):
            call()
    assert [queue.name for queue in shared.admin.list_queues()] == ["q"]
    with pytest.raises(MessagingEntityNotFoundError):
        shared.admin.get_queue("new")
    shared.close()
    shared.open()
    assert [queue.name for queue in shared.admin.list_queues()] == ["q"]
    assert shared.admin.get_queue("q").max_delivery_count == 10
    shared.admin.create_queue("new")


def test_disjoint_owners_work_side_by_side(shared: Bus, other_half: Bus) -> None:
    """Two owners of different partitions in one process do not affect each other (B-057)."""
    shared.open(partitions_owned={0, 1})
    other_half.open(partitions_owned={2, 3})
    for bus, places in ((shared, {0, 1}), (other_half, {2, 3})):
        bus.send(*"abcdef")
        messages = bus.take()
        assert {message.partition_id for message in messages} == places
        bus.receiver().complete_messages(messages[:4])
    shared.close()
    other_half.send("still there")
    other_half.close()
    shared.open()
    assert shared.runtime().total_message_count == 2 * (2 + 6 - 4) + 1


@pytest.mark.parametrize(("first", "second"), [({0, 1}, {1, 2}), ({0, 1}, None), (None, {2}), ({3}, {3})])
def test_overlapping_owners_are_refused(
    shared: Bus, other_half: Bus, first: set[int] | None, second: set[int] | None
) -> None:
    """A partition has one owner; the error of a second open names path and pid, and it owns no partition (B-057)."""
    shared.open(partitions_owned=first)
    with pytest.raises(NamespaceInUseError, match=re.escape(str(shared.path))) as refusal:
        other_half.open(partitions_owned=second)
    assert re.search(rf"\b{os.getpid()}\b", str(refusal.value).replace(str(shared.path), ""))
    free = set(range(PARTITIONS)) - first if first is not None else set()
    if free:
        other_half.open(partitions_owned=free)
        other_half.close()
    shared.close()
    other_half.open()


def test_two_processes_at_once(
    shared: Bus,
    start_python: Callable[..., subprocess.Popen[str]],
    until_printed: Callable[..., None],
    key_of: Callable[..., str],
) -> None:
    """Owners in two processes store concurrently, and a later owner of all partitions finds both (B-057, B-062)."""
    other = start_python(OWN_SOME, shared.path, "1,2")
    until_printed(other, "owned")
    for overlapping in (None, {0, 1}, {2}):
        with pytest.raises(NamespaceInUseError) as refusal:
            shared.open(partitions_owned=overlapping)
        assert re.search(rf"\b{other.pid}\b", str(refusal.value).replace(str(shared.path), ""))
    shared.open(partitions_owned={0, 3})
    for partition_id in (0, 3):
        shared.send(*(f"{partition_id}.{number}" for number in range(5)), partition_key=key_of(partition_id))
    with pytest.raises(PartitionUnavailableError):
        shared.send("refused", partition_key=key_of(1))
    output, _ = other.communicate("\n", timeout=LIVENESS_SECONDS)
    assert other.returncode == 0, output
    shared.close()
    shared.open()
    expected = [f"{partition}.{number}" for partition in range(PARTITIONS) for number in range(5)]
    assert sorted(body for body in bodies(shared.take()) if not body.startswith("old")) == expected


def test_partitions_of_a_killed_owner_are_free(
    shared: Bus, start_python: Callable[..., subprocess.Popen[str]], until_printed: Callable[..., None]
) -> None:
    """When one of two owners is killed, another one takes over its partitions with all their messages (B-057)."""
    other = start_python(OWN_SOME, shared.path, "1,2")
    until_printed(other, "owned")
    shared.open(partitions_owned={0, 3})
    other.kill()
    other.wait(LIVENESS_SECONDS)
    heir = Namespace(str(shared.path), partitions_owned={1, 2})
    try:
        assert {entry.partition_id for entry in heir.partition_health() if entry.status == "healthy"} == {1, 2}
    finally:
        heir.close()
    shared.close()
    shared.open()
    assert sum(not body.startswith("old") for body in bodies(shared.take())) == 10


@pytest.mark.parametrize("owned", [{4}, {-1}, {0, 99}, set(), [1.5], ["a"], 3])
def test_bad_partitions_are_refused(shared: Bus, owned: Any) -> None:
    """Invalid partition numbers are an error, and the directory stays free (argument checks)."""
    with pytest.raises((ValueError, TypeError, InvalidOperationError)):
        shared.open(partitions_owned=owned)
    shared.open()


def test_memory_has_no_owned_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`partitions_owned` needs a directory that can be shared (argument checks)."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidOperationError, ValueError)):
        Namespace(partitions_owned={0})
    assert list(tmp_path.iterdir()) == []
