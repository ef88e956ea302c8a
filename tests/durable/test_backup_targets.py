# SPDX-License-Identifier: Apache-2.0
"""What a backup does with its target: which files it shares, what it removes, and what it leaves alone."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import oxbus.backups._restore as restoring
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus._oxbus import _BackupLock
from oxbus.backups import backup, restore
from oxbus.exceptions import PartitionUnavailableError
from oxbus.management import ServiceBusAdministrationClient
from stored_files import tree

UNFINISHED = ".oxbus-backup.unfinished"
COUNT = 50


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """The directory of a closed namespace with some messages in the queue `q`."""
    path = tmp_path / "bus"
    with Namespace(path, partitions=4) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    write(path, "first")
    return path


def write(path: Path, body: str) -> None:
    """Send messages, one by one, and write a snapshot of them."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
        for number in range(COUNT):
            sender.send_messages(ServiceBusMessage(body, partition_key=str(number)))
        namespace.checkpoint()


def bodies(path: Path) -> list[str]:
    """The bodies in a directory."""
    with (
        Namespace(path) as namespace,
        ServiceBusClient(namespace) as client,
        client.get_queue_receiver("q") as receiver,
    ):
        found: list[str] = []
        while messages := receiver.peek_messages(max_message_count=250):
            found += [str(message) for message in messages]
    return sorted(found)


def test_backup_does_not_share_files_of_another_copy_of_the_namespace(bus: Path, tmp_path: Path) -> None:
    """Two copies of a namespace go on differently, and write snapshots of the same name, entry and length."""
    first = backup(bus, tmp_path / "backups")
    write(bus, "here!")
    backup(bus, tmp_path / "backups")
    restore(first.directory, tmp_path / "copy")
    write(tmp_path / "copy", "there")
    backup(tmp_path / "copy", tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "restored")
    assert bodies(tmp_path / "restored") == bodies(tmp_path / "copy") == ["first"] * COUNT + ["there"] * COUNT


@pytest.mark.parametrize("name", [UNFINISHED, "unfinished"])
def test_directory_that_no_backup_made_is_left_alone(bus: Path, tmp_path: Path, name: str) -> None:
    """Whatever its name is."""
    other = tmp_path / "backups" / name / "letters" / "letter.txt"
    other.parent.mkdir(parents=True)
    other.write_text("Dear reader")
    if name == UNFINISHED:
        with pytest.raises(ValueError, match="has the name of an unfinished backup and is none; move it away"):
            backup(bus, tmp_path / "backups")
        # Not even after a failure of another kind.
        with pytest.raises(Exception, match="there is no namespace"):
            backup(tmp_path / "nothing", tmp_path / "backups")
    else:
        backup(bus, tmp_path / "backups")
    assert other.read_text() == "Dear reader"


def test_source_in_the_place_of_an_unfinished_backup_is_left_alone(bus: Path, tmp_path: Path) -> None:
    """Also if it has the mark."""
    source = tmp_path / UNFINISHED
    bus.rename(source)
    (source / "backup.unfinished").touch()
    with pytest.raises(ValueError, match="move it away"):
        backup(source, tmp_path)
    assert bodies(source) == ["first"] * COUNT


def test_what_an_interrupted_removal_left_is_removed(bus: Path, tmp_path: Path) -> None:
    """The mark goes last; an empty directory is harmless."""
    for left in ([], ["backup.unfinished"], ["backup.unfinished", "backup.json"]):
        (tmp_path / "backups" / UNFINISHED).mkdir(parents=True)
        for name in left:
            (tmp_path / "backups" / UNFINISHED / name).touch()
        saved = backup(bus, tmp_path / "backups", keep=1)
        assert {path.name for path in (tmp_path / "backups").iterdir()} == {"owner", saved.directory.name}
        assert not (saved.directory / "backup.unfinished").exists()


@pytest.mark.parametrize("harm", ["missing", "empty"])
def test_partition_without_files_is_refused(bus: Path, tmp_path: Path, harm: str) -> None:
    """A backup without its messages would be taken for a whole one."""
    shutil.rmtree(bus / "shard-02")
    if harm == "empty":
        (bus / "shard-02").mkdir()
    with pytest.raises(PartitionUnavailableError, match=r"files of a partition are missing.* partition=2"):
        backup(bus, tmp_path / "backups")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["owner"]


def test_failed_backup_and_restore_hold_no_lock(bus: Path, tmp_path: Path) -> None:
    """Not even while the program holds their exception, whose traceback refers to everything."""

    def fail(_copied: int, _all: int) -> None:
        raise RuntimeError("the program has enough")

    with pytest.raises(RuntimeError) as failed_backup:
        backup(bus, tmp_path / "backups", progress=fail)
    backup(bus, tmp_path / "backups")
    assert bodies(bus) == ["first"] * COUNT
    with pytest.raises(RuntimeError) as failed_restore:
        restore(tmp_path / "backups", tmp_path / "copy", progress=fail)
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == ["first"] * COUNT
    assert failed_backup.tb is not None
    assert failed_restore.tb is not None


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files and directories that were synced."""
    found: set[Path] = set()
    real = os.fsync

    def sync(descriptor: int) -> None:
        found.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return found


def without_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hard links fail."""

    def refuse(_path: Path, _old: Path) -> None:
        raise OSError(95, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not show the names of open files")
def test_files_are_copied_and_synced_where_there_are_no_hard_links(
    bus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: set[Path]
) -> None:
    """They count as copied."""
    backup(bus, tmp_path / "backups")
    without_hard_links(monkeypatch)
    synced.clear()
    counted: list[tuple[int, int]] = []
    again = backup(bus, tmp_path / "backups", progress=lambda *bytes_: counted.append(bytes_))
    assert again.copied_bytes == again.bytes
    assert counted[-1] == (again.bytes, again.bytes)
    names = {path.name for path in synced if path.suffix == ".snapshot"}
    assert names == {path.name for path in again.directory.rglob("*.snapshot")}
    shutil.rmtree(min((tmp_path / "backups").glob("2*")))
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == ["first"] * COUNT


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not show the names of open files")
def test_names_of_new_directories_are_synced(bus: Path, tmp_path: Path, synced: set[Path]) -> None:
    """Otherwise a power loss could remove the target with all that is in it."""
    (tmp_path / "a").mkdir()
    backup(bus, tmp_path / "a" / "b" / "backups")
    assert {tmp_path / "a", tmp_path / "a" / "b"} <= synced
    restore(tmp_path / "a" / "b" / "backups", tmp_path / "copy")
    assert tmp_path in synced


@pytest.mark.parametrize("harm", ["file is missing", "file is shorter", "list is missing", "list is empty"])
def test_incomplete_newest_backup_does_not_block_the_next(bus: Path, tmp_path: Path, harm: str) -> None:
    """The next one copies what the newest lacks."""
    broken = backup(bus, tmp_path / "backups").directory
    path = next(broken.glob("shard-*/*.snapshot"))
    match harm:
        case "file is missing":
            path.unlink()
        case "file is shorter":
            os.truncate(path, 10)
        case "list is missing":
            (broken / "backup.json").unlink()
        case "list is empty":
            (broken / "backup.json").write_text("")
    saved = backup(bus, tmp_path / "backups")
    assert saved.directory.name > broken.name
    assert restore(tmp_path / "backups", tmp_path / "copy") == saved.directory
    assert bodies(tmp_path / "copy") == ["first"] * COUNT


def test_backup_without_its_list_is_not_restored_and_does_not_count(bus: Path, tmp_path: Path) -> None:
    """Somebody removed a part of it."""
    first = backup(bus, tmp_path / "backups")
    broken = backup(bus, tmp_path / "backups")
    (broken.directory / "backup.json").unlink()
    assert restore(tmp_path / "backups", tmp_path / "copy") == first.directory
    backup(bus, tmp_path / "backups", keep=2)
    assert first.directory.is_dir()


def test_name_follows_the_newest_backup_if_the_clock_was_ahead(bus: Path, tmp_path: Path) -> None:
    """By a millisecond, however far the clock was ahead."""
    later = datetime.now(UTC).replace(microsecond=999_000) + timedelta(days=4000)
    (tmp_path / "backups" / f"{later:%Y%m%dT%H%M%S}.999Z").mkdir(parents=True)
    saved = backup(bus, tmp_path / "backups")
    assert saved.directory.name == f"{later + timedelta(milliseconds=1):%Y%m%dT%H%M%S}.000Z"


def test_restore_looks_into_the_directory_once_it_has_the_lock(
    bus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another restore that ended in between is not overwritten."""
    backup(bus, tmp_path / "backups")
    real = _BackupLock

    def lock(place: Path) -> object:
        monkeypatch.setattr(restoring, "_BackupLock", real)
        restore(tmp_path / "backups", tmp_path / "copy")
        return real(place)

    monkeypatch.setattr(restoring, "_BackupLock", lock)
    with pytest.raises(ValueError, match="not empty"):
        restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == ["first"] * COUNT


@pytest.mark.skipif(os.name == "nt", reason="the modes are those of POSIX")
def test_directories_are_open_to_their_owner_only(bus: Path, tmp_path: Path) -> None:
    """They have the messages."""
    saved = backup(bus, tmp_path / "backups")
    restore(saved.directory, tmp_path / "copy")
    inside = [path for path in saved.directory.rglob("*") if path.is_dir()]
    assert inside
    for path in [tmp_path / "backups", saved.directory, *inside, tmp_path / "copy"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path


def test_target_inside_an_open_namespace_is_refused(bus: Path) -> None:
    """It would become a part of itself."""
    with Namespace(bus) as namespace:
        for target in (bus, bus / "backups"):
            with pytest.raises(ValueError, match="the target is inside the namespace"):
                backup(namespace, target)
    assert not [name for name in tree(bus) if "backup" in name]


@pytest.mark.skipif(os.name == "nt", reason="the name without a file is a symbolic link")
def test_stage_that_is_gone_is_left_out_and_a_journal_is_not(bus: Path, tmp_path: Path) -> None:
    """A stage may be published between the listing and the look; a journal of a locked directory stays."""
    (bus / "stages").mkdir(exist_ok=True)
    (bus / "stages" / "0000000000000001.stage").symlink_to(tmp_path / "gone")
    backup(bus, tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "copy")
    assert bodies(tmp_path / "copy") == ["first"] * COUNT
    (bus / "shard-01" / "0000000099.journal").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match=r"could not be read for the backup.*shard-01/0000000099\.journal"):
        backup(bus, tmp_path / "backups")
