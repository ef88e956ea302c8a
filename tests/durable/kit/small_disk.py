# SPDX-License-Identifier: Apache-2.0
"""One process that uses a namespace on a small file system; run as a script in its own mount namespace.

    small_disk.py DIRECTORY MEBIBYTES BODY_BYTES PARTITIONS END SETTLEMENT

The script mounts an empty file system of that size, fills it, ends the process that filled it (`close` or `kill`),
drains it with another process, and prints the result as JSON. With the end `backups`, the second process takes backups
meanwhile, and holds each until it has the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusQuotaExceededError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import ServiceBusReceiver

LIST_BYTES = 400_000
AGAIN_SECONDS = 30
"""Time within which sends must work again after a drain; never a measure of speed."""


def fill(client: ServiceBusClient, body: bytes, settlement: str) -> int:
    """Send lists, then single messages, until the disk is full; return the number of stored messages."""
    stored = 0
    counts = [1] if settlement == "single" else [max(1, min(100, LIST_BYTES // len(body))), 1]
    with client.get_queue_sender("q") as sender:
        for count in counts:
            try:
                while True:
                    sender.send_messages([ServiceBusMessage(body) for _ in range(count)])
                    stored += count
            except ServiceBusQuotaExceededError:
                continue
    return stored


def settle_all(receiver: ServiceBusReceiver, settlement: str) -> tuple[int, list[int]]:
    """Receive and settle until the queue is empty; return the number of completed messages and the deferred numbers."""
    done, deferred, position = 0, [], 0
    while messages := receiver.receive_messages(max_message_count=1 if settlement == "single" else 50, max_wait_time=1):
        for message in messages:
            turn = position % 4 if settlement == "mixed" else 0
            position += 1
            if turn == 1 and message.delivery_count == 0:
                receiver.abandon_message(message)
            elif turn == 2 or settlement == "defer":
                assert message.sequence_number is not None
                receiver.defer_message(message)
                deferred.append(message.sequence_number)
            elif turn == 3 or settlement == "dead-letter":
                receiver.dead_letter_message(message, reason="why", error_description="because it was asked for")
            else:
                receiver.complete_message(message)
                done += 1
    return done, deferred


def drain(client: ServiceBusClient, settlement: str) -> int:
    """Settle everything, then complete deferred and dead-lettered messages; return the number of completed messages."""
    with client.get_queue_receiver("q") as receiver:
        done, deferred = settle_all(receiver, settlement)
        for number in deferred:
            for message in receiver.receive_deferred_messages(number):
                receiver.complete_message(message)
                done += 1
    with client.get_queue_receiver("q", sub_queue="deadletter") as receiver:
        done += settle_all(receiver, "complete")[0]
    return done


def sends_again(client: ServiceBusClient, body: bytes) -> bool:
    """Whether a send works again without reopening."""
    with client.get_queue_sender("q") as sender:
        until = time.monotonic() + AGAIN_SECONDS
        while time.monotonic() < until:
            try:
                sender.send_messages(ServiceBusMessage(body))
            except ServiceBusQuotaExceededError:
                time.sleep(0.05)
            else:
                return True
    return False


def in_child(work: str, *arguments: str) -> Any:
    """Run a part in its own process and read what it prints; the part may end by a kill."""
    process = subprocess.run(
        [sys.executable, __file__, work, *arguments], stdout=subprocess.PIPE, text=True, check=False, timeout=300
    )
    assert process.returncode in {0, -signal.SIGKILL}, (process.returncode, process.stdout)
    return json.loads(process.stdout)


@contextlib.contextmanager
def held_backups(namespace: Namespace, found: dict[str, Any]) -> Iterator[None]:
    """Take backups without copying them, and hold each until the next; count them, and keep the last error."""
    over = threading.Event()

    def take() -> None:
        try:
            held = namespace._backup()
            while not over.is_set():
                after = namespace._backup()
                held.close()
                held = after
                found["backups"] += 1
                over.wait(0.01)
            held.close()
        except Exception as error:  # noqa: BLE001 -- the result is printed
            found["failed"] = repr(error)

    found["backups"] = 0
    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def child(work: str, path: str, body_bytes: str, partitions: str, end: str, settlement: str) -> None:
    """Fill or drain, and end as requested."""
    namespace = Namespace(path, partitions=int(partitions) if work == "fill" else None, durability="os")
    client, body = ServiceBusClient(namespace), b"x" * int(body_bytes)
    administration = ServiceBusAdministrationClient(namespace)
    found: dict[str, Any] = {}
    if work == "fill":
        administration.create_queue("q", enable_partitioning=int(partitions) > 1, max_delivery_count=100)
        found["stored"] = fill(client, body, settlement)
    else:
        found["before"] = administration.get_queue_runtime_properties("q").total_message_count
        with held_backups(namespace, found) if end == "backups" else contextlib.nullcontext():
            found["completed"] = drain(client, settlement)
        found["left"] = administration.get_queue_runtime_properties("q").total_message_count
        found["sends again"] = sends_again(client, body)
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    namespace.close()


def main(directory: str, mebibytes: str, body_bytes: str, partitions: str, end: str, settlement: str) -> None:
    """Mount, fill, drain."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", directory], check=True)
    arguments = (str(Path(directory) / "bus"), body_bytes, partitions, end, settlement)
    filled = in_child("fill", *arguments)
    sys.stdout.write(json.dumps(filled | in_child("drain", *arguments)))


if __name__ == "__main__":
    if sys.argv[1] in {"fill", "drain"}:
        child(*sys.argv[1:])
    else:
        main(*sys.argv[1:])
