# SPDX-License-Identifier: Apache-2.0
"""A backup has everything that was acknowledged before it; a restore gives it back, or fails with a clear error."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.backups import backup, restore
from oxbus.exceptions import InvalidOperationError, NamespaceInUseError, PartitionUnavailableError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault
from stored_files import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARTITIONS = 4
UNFINISHED = ".oxbus-backup.unfinished"


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Namespace]:
    """An open namespace with a partitioned queue `q` and a plain queue `done`."""
    with Namespace(tmp_path / "bus", partitions=PARTITIONS) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=True)
        admin.create_queue("done")
        yield namespace


def send(namespace: Namespace, queue: str, numbers: range) -> None:
    """Send messages whose bodies are numbers."""
    with ServiceBusClient(namespace) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in numbers])


def receive(namespace: Namespace, queue: str, count: int) -> list[int]:
    """Receive and complete messages."""
    with ServiceBusClient(namespace) as client, client.get_queue_receiver(queue) as receiver:
        messages = receiver.receive_messages(count, max_wait_time=0)
        receiver.complete_messages(messages)
        return [int(str(message)) for message in messages]


def bodies(path: Path, queue: str = "q") -> list[int]:
    """What a directory has in a queue."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        assert {health.status for health in namespace.partition_health()} == {"healthy"}
        with client.get_queue_receiver(queue) as receiver:
            found: list[int] = []
            while messages := receiver.peek_messages(max_message_count=250):
                found += [int(str(message)) for message in messages]
    return sorted(found)


def test_backup_of_an_open_namespace_has_what_was_acknowledged(bus: Namespace, tmp_path: Path) -> None:
    """Later calls change nothing in it, and the namespace goes on."""
    send(bus, "q", range(1000))
    settled = receive(bus, "q", 100)
    saved = backup(bus, tmp_path / "backups")
    send(bus, "q", range(1000, 2000))
    receive(bus, "q", 500)
    assert restore(tmp_path / "backups", tmp_path / "copy") == saved.directory
    assert bodies(tmp_path / "copy") == sorted(set(range(1000)) - set(settled))


@pytest.mark.parametrize("checkpoint", [False, True], ids=["journal", "snapshot"])
def test_files_are_read_although_the_namespace_replaces_them(bus: Namespace, tmp_path: Path, checkpoint: bool) -> None:
    """Snapshots remove and recycle journals while a backup is copied."""
    send(bus, "q", range(1000))
    found = []

    def go_on(_copied: int, _all: int) -> None:
        found.append(1)
        send(bus, "q", range(1000, 1100))
        receive(bus, "q", 1000)
        if checkpoint:
            bus.checkpoint()

    backup(bus, tmp_path / "backups", progress=go_on)
    assert len(found) > PARTITIONS
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == list(range(1000))


def test_transaction_is_whole_or_absent(bus: Namespace, tmp_path: Path) -> None:
    """Messages move between two queues in transactions while backups are taken: each is there exactly once."""
    count = 40
    ServiceBusAdministrationClient(bus).create_queue("p", enable_partitioning=True)
    with ServiceBusClient(bus) as client, client.get_queue_sender("q") as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage(str(number), partition_key=str(number)))
    over = threading.Event()

    def move() -> None:
        with ServiceBusClient(bus) as client:
            ways = [
                (client.get_queue_receiver(source), client.get_queue_sender(target))
                for source, target in (("q", "p"), ("p", "q"))
            ]
            while not over.is_set():
                for receiver, sender in ways:
                    for message in receiver.receive_messages(count, max_wait_time=0):
                        with client.transaction(cross_entity=True) as transaction:
                            copy = ServiceBusMessage(str(message), partition_key=message.partition_key)
                            sender.send_messages(copy, transaction=transaction)
                            receiver.complete_message(message, transaction=transaction)

    with working(move, over):
        saved = [backup(bus, tmp_path / "backups").directory for _ in range(8)]
    for number, directory in enumerate(saved):
        path = tmp_path / f"copy{number}"
        restore(directory, path)
        assert sorted(bodies(path) + bodies(path, "p")) == list(range(count))


def test_message_on_its_way_between_partitions_is_there_once(bus: Namespace, tmp_path: Path) -> None:
    """A forward stores a message in another partition and then removes it; a backup in between loses nothing."""
    admin = ServiceBusAdministrationClient(bus)
    admin.create_queue("in", enable_partitioning=True, forward_to="done")
    over = threading.Event()
    sent: list[int] = []

    def work() -> None:
        while not over.is_set():
            send(bus, "in", range(len(sent), len(sent) + 1))
            sent.append(1)

    with working(work, over):
        saved = []
        for _ in range(8):
            before = len(sent)
            saved.append((before, backup(bus, tmp_path / "backups").directory))
    for number, (before, directory) in enumerate(saved):
        path = tmp_path / f"copy{number}"
        restore(directory, path)
        with Namespace(path) as copy:
            wait_until_forwarded(copy)
        found = bodies(path, "done")
        assert found == list(range(len(found)))
        assert len(found) >= before


@contextlib.contextmanager
def working(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Run `work` in a thread meanwhile; it ends when `over` is set."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def wait_until_forwarded(namespace: Namespace) -> None:
    """Wait until the forwarding queue is empty."""
    admin = ServiceBusAdministrationClient(namespace)
    end = time.monotonic() + 60
    while admin.get_queue_runtime_properties("in").total_message_count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_unchanged_files_are_shared_with_the_previous_backup(bus: Namespace, tmp_path: Path) -> None:
    """A second backup copies only what is new, and the first may be removed."""
    send(bus, "q", range(5000))
    bus.checkpoint()
    first = backup(bus, tmp_path / "backups")
    send(bus, "q", range(5000, 5010))
    second = backup(bus, tmp_path / "backups")
    assert first.copied_bytes == first.bytes
    assert second.copied_bytes < second.bytes / 2
    shutil.rmtree(first.directory)
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == list(range(5010))


def test_only_the_newest_backups_are_kept(bus: Namespace, tmp_path: Path) -> None:
    """`keep` counts the new one."""
    for number in range(5):
        send(bus, "q", range(number, number + 1))
        last = backup(bus, tmp_path / "backups", keep=2)
    names = sorted(path.name for path in (tmp_path / "backups").iterdir())
    assert len(names) == 3
    assert names[1:] == [last.directory.name, "owner"]
    with pytest.raises(ValueError, match="keep must be at least 1"):
        backup(bus, tmp_path / "backups", keep=0)


def test_directory_that_nobody_has_open_is_left_unchanged(bus: Namespace, tmp_path: Path) -> None:
    """No delivery is counted and no file changes; a locked message is free in the restored namespace."""
    send(bus, "q", range(100))
    with ServiceBusClient(bus) as client:
        receiver = client.get_queue_receiver("q")
        assert len(receiver.receive_messages(10, max_wait_time=0)) == 10
        bus.close()
    path = tmp_path / "bus"
    before = {name: content for name, content in tree(path).items() if not name.endswith("owner")}
    backup(path, tmp_path / "backups")
    assert {name: content for name, content in tree(path).items() if not name.endswith("owner")} == before
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == bodies(path) == list(range(100))


def test_directory_in_use_is_refused(bus: Namespace, tmp_path: Path) -> None:
    """The error names the process."""
    send(bus, "q", range(1))
    with pytest.raises(NamespaceInUseError, match=f"pid {os.getpid()}"):
        backup(tmp_path / "bus", tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == [tmp_path / "backups" / "owner"]


def test_staged_rows_are_part_of_it(bus: Namespace, tmp_path: Path) -> None:
    """Also while a commit publishes them and removes their files; each backup has them once, staged or published."""
    pa = pytest.importorskip("pyarrow")
    for batch in range(4):
        bus._stages().stage("q", f"stage {batch}", pa.table({"body": [str(batch).encode()] * 100}))

    def commit(_copied: int, _all: int) -> None:
        for batch in range(4):
            bus._stages().commit_stages("sink", "query", batch, [f"stage {batch}"])

    first = backup(bus, tmp_path / "backups", progress=commit)
    assert list((tmp_path / "bus" / "stages").iterdir()) == []
    second = backup(bus, tmp_path / "backups")
    for number, saved in enumerate([first, second]):
        restore(saved.directory, tmp_path / f"copy{number}")
        with Namespace(tmp_path / f"copy{number}") as copy:
            for batch in range(4):
                assert copy._stages().commit_stages("sink", "query", batch, [f"stage {batch}"]) is (number == 0)
        assert bodies(tmp_path / f"copy{number}") == [batch for batch in range(4) for _ in range(100)]


def test_partition_out_of_service_is_refused(bus: Namespace, tmp_path: Path) -> None:
    """A backup without its messages would be taken for a whole one."""
    send(bus, "q", range(100))
    inject_fault(bus, 2, "unavailable")
    with pytest.raises(PartitionUnavailableError, match="heal it and try again: partition=2"):
        backup(bus, tmp_path / "backups")
    heal(bus, 2)
    backup(bus, tmp_path / "backups")


def test_close_during_a_backup_ends_it(bus: Namespace, tmp_path: Path) -> None:
    """The directory may then belong to another process."""
    send(bus, "q", range(100))
    with pytest.raises(ValueError, match="closed during its backup"):
        backup(bus, tmp_path / "backups", progress=lambda *_: bus.close())
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["owner"]


KILLED = """
import sys, time
from oxbus import Namespace
from oxbus.backups import backup

def show(copied, total):
    print(copied, flush=True)
    time.sleep(0.01)

with Namespace(sys.argv[1]) as namespace:
    backup(namespace, sys.argv[2], progress=show)
"""


def test_killed_backup_leaves_nothing_that_looks_complete(bus: Namespace, tmp_path: Path) -> None:
    """The previous backup stays the newest one, and the next one removes what is left."""
    send(bus, "q", range(1000))
    first = backup(bus, tmp_path / "backups")
    for number in range(3):
        send(bus, "q", range(1000 + 100 * number, 1100 + 100 * number))
        bus.checkpoint()
    bus.close()
    for pieces in range(1, 4):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "bus"), str(tmp_path / "backups")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(pieces):
                process.stdout.readline()
            process.kill()
        assert (tmp_path / "backups" / UNFINISHED).is_dir()
        assert not (tmp_path / "backups" / UNFINISHED / "backup.json").exists()
        assert restore(tmp_path / "backups", tmp_path / f"copy{pieces}") == first.directory
        with pytest.raises(ValueError, match="there is no backup"):
            restore(tmp_path / "backups" / UNFINISHED, tmp_path / "none")
    last = backup(tmp_path / "bus", tmp_path / "backups")
    assert not (tmp_path / "backups" / UNFINISHED).exists()
    assert restore(tmp_path / "backups", tmp_path / "copy") == last.directory
    assert bodies(tmp_path / "copy") == list(range(1300))


RESTORED = """
import sys, time
from oxbus.backups import restore

def show(written, total):
    print(written, flush=True)
    time.sleep(0.02)

restore(sys.argv[1], sys.argv[2], progress=show)
"""


def test_killed_restore_is_no_namespace_and_can_be_repeated(bus: Namespace, tmp_path: Path) -> None:
    """Otherwise an open could take a part of the messages for all of them."""
    send(bus, "q", range(1000))
    saved = backup(bus, tmp_path / "backups")
    for pieces in range(1, saved.files):
        copy = tmp_path / f"copy{pieces}"
        command = [sys.executable, "-c", RESTORED, str(tmp_path / "backups"), str(copy)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(pieces):
                process.stdout.readline()
            process.kill()
        with pytest.raises(InvalidOperationError, match="the restore into this directory did not end"):
            Namespace(copy)
        restore(tmp_path / "backups", copy)
        assert bodies(copy) == list(range(1000))


@pytest.mark.parametrize("harm", ["flipped", "shorter", "missing"])
def test_damaged_file_is_found_by_the_restore(bus: Namespace, tmp_path: Path, harm: str) -> None:
    """Whatever the namespace would notice itself."""
    send(bus, "q", range(1000))
    saved = backup(bus, tmp_path / "backups")
    path = max(saved.directory.glob("shard-*/*"), key=lambda file: file.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    if harm != "missing":
        path.write_bytes(content if harm == "flipped" else content[:-1])
    with pytest.raises(ValueError, match=f"a file of the backup is .*{path.name}"):
        restore(saved.directory, tmp_path / "copy")
    with pytest.raises(InvalidOperationError, match="did not end"):
        Namespace(tmp_path / "copy")


def test_backup_is_not_opened_as_a_namespace(bus: Namespace, tmp_path: Path) -> None:
    """Its files are shared with other backups, so nobody may change them."""
    saved = backup(bus, tmp_path / "backups")
    with pytest.raises(InvalidOperationError, match=r"the directory is a backup; .* `oxbus restore"):
        Namespace(saved.directory)


def test_wrong_places_are_refused(bus: Namespace, tmp_path: Path) -> None:
    """Each error says what to do."""
    saved = backup(bus, tmp_path / "backups")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(ValueError, match="not empty"):
        restore(saved.directory, tmp_path / "full")
    with pytest.raises(ValueError, match="there is no backup in the directory"):
        restore(tmp_path / "full", tmp_path / "copy")
    with pytest.raises(InvalidOperationError, match="there is no namespace"):
        backup(tmp_path / "nothing", tmp_path / "backups")
    with pytest.raises(InvalidOperationError, match="in memory"), Namespace() as memory:
        backup(memory, tmp_path / "backups")
    with pytest.raises(ValueError, match="in memory"):
        backup("Endpoint=memory://x", tmp_path / "backups")
    bus.close()
    with pytest.raises(ValueError, match="inside the namespace"):
        backup(tmp_path / "bus", tmp_path / "bus" / "backups")
    listed = json.loads((saved.directory / "backup.json").read_text())
    (saved.directory / "backup.json").write_text(json.dumps(listed | {"format": 99}))
    with pytest.raises(ValueError, match="a newer version"):
        restore(saved.directory, tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "shard-00/../../outside", "a\\b", "", "shard-00//x", "a/b/c/d"]
)
def test_names_outside_the_backup_are_refused(bus: Namespace, tmp_path: Path, name: str) -> None:
    """Whoever wrote the list."""
    saved = backup(bus, tmp_path / "backups")
    listed = json.loads((saved.directory / "backup.json").read_text())
    listed["files"][0]["name"] = name
    (saved.directory / "backup.json").write_text(json.dumps(listed))
    with pytest.raises(ValueError, match="a backup cannot have a file of this name"):
        restore(saved.directory, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_two_backups_into_one_directory(bus: Namespace, tmp_path: Path) -> None:
    """The second is refused while the first writes."""
    send(bus, "q", range(100))
    refused = []

    def second(_copied: int, _all: int) -> None:
        with pytest.raises(NamespaceInUseError, match="another backup writes into the directory"):
            backup(bus, tmp_path / "backups")
        refused.append(time.monotonic())

    backup(bus, tmp_path / "backups", progress=second)
    assert refused
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == list(range(100))
