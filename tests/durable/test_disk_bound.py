# SPDX-License-Identifier: Apache-2.0
"""The size of a directory follows its stored messages, not the number of opens or past traffic (R-28)."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

KILLS = 100
LIVENESS_SECONDS = 60
# More than the time after which a partition looks whether a snapshot is due.
UPKEEP_SECONDS = 1

pytestmark = pytest.mark.timeout(300)


def allocated_bytes(directory: Path) -> int:
    """Bytes of the blocks that the files of a directory occupy."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            # The compaction thread removed it.
            continue
    return total


def test_killed_processes_do_not_fill_the_disk(
    tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]]
) -> None:
    """A hundred killed processes that stored 160 KB each leave at most 64 MiB, also after the next open (R-28)."""
    path = tmp_path / "bus"
    with Namespace(path) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    for kill in range(KILLS):
        process = start_python(
            """
            with ServiceBusClient(Namespace(sys.argv[1])).get_queue_sender("q") as sender:
                for _ in range(16):
                    sender.send_messages([ServiceBusMessage(bytes(1024)) for _ in range(10)])
                os.kill(os.getpid(), 9)
            """,
            path,
        )
        process.communicate(timeout=LIVENESS_SECONDS)
        assert process.returncode == -signal.SIGKILL
        assert allocated_bytes(path) <= 64 << 20, f"after kill {kill + 1}"
    with Namespace(path) as namespace:
        assert allocated_bytes(path) <= 64 << 20
        runtime = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties("q")
        assert runtime.total_message_count == KILLS * 160


def test_completed_messages_take_no_disk_space(tmp_path: Path) -> None:
    """After 150 MB have been sent and completed, each partition keeps a few MiB (R-28)."""
    with Namespace(tmp_path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        client = ServiceBusClient(namespace)
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            for _ in range(3000):
                sender.send_messages([ServiceBusMessage(bytes(1024)) for _ in range(50)])
                left = 50
                while left:
                    messages = receiver.receive_messages(max_message_count=left, max_wait_time=5)
                    receiver.complete_messages(messages)
                    left -= len(messages)
        until_at_most(lambda: allocated_bytes(tmp_path), 128 << 20)
    assert allocated_bytes(tmp_path) < 1 << 20


def test_messages_that_are_only_sent_are_written_once(tmp_path: Path) -> None:
    """A snapshot would free nothing; at most the first few MB are in one, as short segments have unused space."""
    with Namespace(tmp_path, partitions=1, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        with ServiceBusClient(namespace).get_queue_sender("q") as sender:
            for _ in range(40):
                for _ in range(10):
                    sender.send_messages([ServiceBusMessage(bytes(10_000)) for _ in range(10)])
                time.sleep(UPKEEP_SECONDS / 20)
        time.sleep(UPKEEP_SECONDS)
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.snapshot")) < 10 << 20
        assert allocated_bytes(tmp_path) > 40 << 20


def test_a_journal_is_bounded_by_the_remaining_messages(tmp_path: Path) -> None:
    """A partition that shrank from many messages to few frees its disk space without a close (R-28)."""
    with Namespace(tmp_path, partitions=1, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        client = ServiceBusClient(namespace)
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            for _ in range(40):
                sender.send_messages([ServiceBusMessage(bytes(10_000)) for _ in range(100)])
            namespace.checkpoint()
            assert allocated_bytes(tmp_path) > 40 << 20
            for _ in range(40):
                receiver.complete_messages(receiver.receive_messages(max_message_count=100, max_wait_time=5))
            for _ in range(4):
                sender.send_messages([ServiceBusMessage(bytes(10_000)) for _ in range(100)])
                receiver.complete_messages(receiver.receive_messages(max_message_count=100, max_wait_time=5))
            until_at_most(lambda: allocated_bytes(tmp_path), 12 << 20)


def until_at_most(measure: Callable[[], int], most: int) -> None:
    """Wait for the compaction thread; the time is not a measure of speed."""
    until = time.monotonic() + LIVENESS_SECONDS
    values: list[Any] = []
    while (value := measure()) > most:
        values.append(value)
        assert time.monotonic() < until, values[-1]
        time.sleep(0.05)
