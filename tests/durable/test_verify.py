# SPDX-License-Identifier: Apache-2.0
"""`oxbus verify` finds damage anywhere in a namespace, and changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.cli import main
from oxbus.management import ServiceBusAdministrationClient
from stored_files import flip_bit, tree

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 2
SENDS_UNTIL_KILLED = """
import sys
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
with Namespace(sys.argv[1], partitions=2) as namespace, ServiceBusClient(namespace) as client:
    for name in ("a", "b", "c", "orders"):  # damage of the last change cannot be told from its interruption
        ServiceBusAdministrationClient(namespace).create_queue(name, enable_partitioning=True)
    with client.get_queue_sender("orders") as sender:
        for number in range(10**9):
            sender.send_messages([ServiceBusMessage("x" * 1000) for _ in range(20)])
            print(number, flush=True)
"""


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """A closed namespace with messages, dead letters and large bodies in both partitions."""
    path = tmp_path / "bus"
    with Namespace(path, partitions=PARTITIONS) as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=True)
        with client.get_queue_sender("orders") as sender:
            for number in range(40):
                sender.send_messages(ServiceBusMessage(f"body {number} " * 50, partition_key=str(number)))
            sender.send_arrow(pa.table({"body": pa.array([b"row"] * 10, pa.binary())}))
        with client.get_queue_receiver("orders") as receiver:
            for message in receiver.receive_messages(max_message_count=5, max_wait_time=1):
                receiver.dead_letter_message(message)
    return path


def verify(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, Any]:
    """Run the command; return its exit code and output."""
    code = main(["verify", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_namespace(bus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All messages are counted, and no byte of the directory changes."""
    before = tree(bus)
    code, found = verify(capsys, bus)
    assert (code, found["whole"], found["catalog"], found["stages"]) == (0, True, [], [])
    assert sum(partition["messages"] for partition in found["partitions"]) == 50
    assert tree(bus) == before
    assert main(["--data", str(bus), "verify"]) == 0
    assert "is whole" in capsys.readouterr().out


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A namespace whose process was killed while it sent: its messages are in journals."""
    path = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", SENDS_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(30):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return path


def test_a_killed_process_leaves_no_damage(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was never synced at the end of a journal is none."""
    before = tree(killed)
    code, found = verify(capsys, killed)
    assert (code, found["whole"]) == (0, True), found
    assert sum(partition["messages"] for partition in found["partitions"]) >= 600
    assert tree(killed) == before


@pytest.mark.parametrize("made", ["bus", "killed"])
def test_damage_of_any_file_is_found(
    made: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flipped bit in the middle of what a file holds; one file at a time."""
    path: Path = request.getfixturevalue(made)
    kinds = set()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        whole = file.read_bytes()
        used = len(whole.rstrip(b"\0"))
        # `owner` has the number of a process, and an empty file waits for its use.
        if file.name == "owner" or used == 0:
            continue
        flip_bit(file, used // 2)
        code, found = verify(capsys, path)
        assert (code, found["whole"]) == (1, False), file
        file.write_bytes(whole)
        kinds.add(file.suffix or file.name)
    assert kinds >= {"bus": {"catalog", ".snapshot"}, "killed": {"catalog", ".journal"}}[made]
    assert verify(capsys, path)[0] == 0


def test_what_is_no_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str], bus: Path) -> None:
    """An empty directory, a missing one, and one that a process has open."""
    for path in (tmp_path / "nothing", tmp_path):
        assert main(["verify", str(path)]) == 1
        assert "oxbus: " in capsys.readouterr().err
    with Namespace(bus):
        assert main(["verify", str(bus)]) == 1
    assert "in use" in capsys.readouterr().err
