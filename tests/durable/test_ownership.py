# SPDX-License-Identifier: Apache-2.0
"""A directory has one owner at a time: a second open fails and names the owner; ownership ends with the process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from durable_bus import bodies
from oxbus import Namespace
from oxbus.exceptions import InvalidOperationError, NamespaceInUseError
from stored_files import tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_bus import Bus

LIVENESS_SECONDS = 120

OPEN_OR_TELL = """
try:
    Namespace(sys.argv[1])
except NamespaceInUseError as error:
    print("in use:", error)
else:
    print("opened")
"""

OWN = """
namespace = Namespace(sys.argv[1], partitions=4)
ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
sender = ServiceBusClient(namespace).get_queue_sender("q")
for number in range(8):
    sender.send_messages(ServiceBusMessage(str(number)))
print("owned", flush=True)
sys.stdin.readline()
"""


def names_owner(text: str, path: Path, pid: int) -> bool:
    """Whether the text of an error names the directory and the process that owns it."""
    return str(path) in text and re.search(rf"\b{pid}\b", text.replace(str(path), "")) is not None


def test_second_open_in_one_process_is_refused(bus: Bus) -> None:
    """The directory of an open namespace cannot be opened again, and the first owner keeps working (one writer)."""
    bus.admin.create_queue("q")
    with pytest.raises(NamespaceInUseError) as refusal:
        Namespace(str(bus.path))
    assert names_owner(str(refusal.value), bus.path, os.getpid())
    assert refusal.value.condition == "amqp:resource-locked"
    bus.send("x")
    assert bodies(bus.take()) == ["x"]


def test_the_same_directory_under_another_name_is_refused(bus: Bus, tmp_path: Path) -> None:
    """A symbolic link or a detour leads to the same owner (one writer)."""
    link = tmp_path / "link"
    link.symlink_to(bus.path)
    for path in (link, bus.path / ".." / bus.path.name):
        with pytest.raises(NamespaceInUseError):
            Namespace(str(path))


def test_refused_open_leaves_no_lock(bus: Bus) -> None:
    """Rejected opens do not keep the directory in use after its owner closed (one writer)."""
    for _ in range(3):
        with pytest.raises(NamespaceInUseError):
            Namespace(str(bus.path))
    bus.close()
    with pytest.raises(InvalidOperationError):
        Namespace(str(bus.path), partitions=5)
    bus.open()
    bus.reopen()


def test_refused_open_changes_nothing(bus: Bus, tmp_path: Path) -> None:
    """A rejected second open writes nothing into the directory (one writer)."""

    def written() -> dict[str, str]:
        # The owner may be creating its next segment.
        return {name: digest for name, digest in tree(tmp_path).items() if not name.endswith(".tmp")}

    before = written()
    with pytest.raises(NamespaceInUseError):
        Namespace(str(bus.path))
    assert written() == before


def test_another_process_is_refused(bus: Bus, run_python: Callable[..., str]) -> None:
    """The error of a second process names the path and pid of the owner; after the close it may own (one writer)."""
    printed = run_python(OPEN_OR_TELL, bus.path)
    assert printed.startswith("in use:")
    assert names_owner(printed, bus.path, os.getpid())
    bus.close()
    assert run_python(OPEN_OR_TELL, bus.path).strip() == "opened"
    bus.open()


@pytest.mark.parametrize("end", ["kill", "terminate", "exit"])
def test_owner_that_ends_owns_nothing(
    make_bus: Callable[..., Bus],
    start_python: Callable[..., subprocess.Popen[str]],
    until_printed: Callable[..., None],
    end: str,
) -> None:
    """The lock ends with the process, also by SIGKILL and without a close; the messages survive (one writer)."""
    bus = make_bus()
    owner = start_python(OWN, bus.path)
    until_printed(owner, "owned")
    with pytest.raises(NamespaceInUseError) as refusal:
        bus.open()
    assert names_owner(str(refusal.value), bus.path, owner.pid)
    if end == "exit":
        owner.communicate("\n", timeout=LIVENESS_SECONDS)
        assert owner.returncode == 0
    else:
        owner.send_signal(signal.SIGKILL if end == "kill" else signal.SIGTERM)
        assert owner.wait(LIVENESS_SECONDS) < 0
    bus.open()
    assert sorted(bodies(bus.take())) == [str(number) for number in range(8)]


def test_stopped_owner_still_owns(
    make_bus: Callable[..., Bus], start_python: Callable[..., subprocess.Popen[str]], until_printed: Callable[..., None]
) -> None:
    """A stopped process that does not respond is still the owner (one writer)."""
    bus = make_bus()
    owner = start_python(OWN, bus.path)
    until_printed(owner, "owned")
    owner.send_signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            with pytest.raises(NamespaceInUseError):
                bus.open()
    finally:
        owner.send_signal(signal.SIGCONT)
    owner.communicate("\n", timeout=LIVENESS_SECONDS)
    bus.open()


def test_owner_file_without_a_lock_means_nothing(bus: Bus) -> None:
    """The pid of a running process in the owner file does not prevent an open (docs/format.md, owner)."""
    bus.close()
    owners = sorted(bus.path.rglob("owner"))
    assert owners
    for file in owners:
        file.write_text(f"{os.getppid()}\n")
    bus.open()
    bus.close()
    for file in owners:
        file.write_text("no number at all " * 50)
    bus.open()


def test_close_frees_the_directory_while_handles_live(bus: Bus) -> None:
    """Senders and receivers that were not closed do not keep the directory in use (one writer)."""
    bus.admin.create_queue("q")
    sender, receiver = bus.sender(), bus.client.get_queue_receiver("q", prefetch_count=5)
    bus.send("x")
    receiver.receive_messages(max_wait_time=0)
    bus.reopen()
    assert bodies(bus.take()) == ["x"]
    sender.close()
    receiver.close()
    assert bodies(bus.peek()) == ["x"]


def test_context_manager_frees_the_directory(tmp_path: Path) -> None:
    """Leaving the block closes the namespace, also by an error (one writer)."""
    path = str(tmp_path / "bus")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), Namespace(path, partitions=1):
            raise ZeroDivisionError


def test_started_program_does_not_inherit_the_lock(bus: Bus) -> None:
    """A program started by the owner, even with its files left open, holds nothing after the close (one writer)."""
    waiting_program = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
    with subprocess.Popen(waiting_program, stdin=subprocess.PIPE, close_fds=False) as program:
        try:
            bus.reopen()
        finally:
            program.kill()


def test_two_directories_are_independent(make_bus: Callable[..., Bus]) -> None:
    """One process may have several namespaces, each with separate queues (one writer per directory)."""
    first, second = make_bus("first"), make_bus("second")
    for bus in (first, second):
        bus.open()
        bus.admin.create_queue("q")
        bus.send(bus.path.name)
    for bus in (first, second):
        bus.reopen()
        assert bodies(bus.take()) == [bus.path.name]
