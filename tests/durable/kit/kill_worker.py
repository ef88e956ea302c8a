# SPDX-License-Identifier: Apache-2.0
"""The process that the kill test kills: threads work on two queues and log every call.

Run as ``kill_worker.py DIRECTORY LOG SEED LEVEL MEMORY_LIMIT_BYTES [BACKUPS]``; the limit is empty for none, and
BACKUPS is a directory for backups, of which a thread takes one after the other. Each line of the log is one record of
`kill_history` with the name of its queue: one before a call, one after it returned. A line is one `write` to a file
opened for appending, so that lines of several threads do not mix and survive the kill.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from kill_messages import QUEUES, REASON, message, view
from oxbus import Namespace, ServiceBusClient, ServiceBusMessageState, ServiceBusReceiveMode
from oxbus.backups import backup
from oxbus.exceptions import MessagingEntityNotFoundError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage

THREADS = 6
PARTITIONS = 4
KEYS_PER_THREAD = 3
CHECKPOINTS_SHARE = 0.5
"""The share of processes that take checkpoints."""

LONGEST_PAUSE_SECONDS = 0.1
MOST_DELIVERIES = 100_000
"""High enough that no message is dead-lettered by exceeding it."""


class Log:
    """The log of one process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._ids = count()

    def write(self, **record: Any) -> None:
        """Add one line."""
        os.write(self._file, (json.dumps(record) + "\n").encode())

    def call(
        self,
        queue: str,
        verb: str,
        function: Callable[[], list[ServiceBusReceivedMessage] | None],
        uids: list[str],
        **more: Any,
    ) -> list[ServiceBusReceivedMessage]:
        """Make a call between its two log lines; log an error and raise it."""
        name = f"{os.getpid()}-{next(self._ids)}"
        self.write(do="try", id=name, queue=queue, verb=verb, uids=uids, **more)
        try:
            messages = function() or []
        except BaseException as error:
            self.write(do="fail", id=name, queue=queue, error=repr(error))
            raise
        self.write(do="ack", id=name, queue=queue, messages=[view(each) for each in messages])
        return messages


class Worker:
    """One thread on one queue. No other thread uses its keys, so the order of their messages is known."""

    def __init__(self, client: ServiceBusClient, log: Log, queue: str, thread: int, seed: str, run: str) -> None:
        self.log = log
        self.queue = queue
        self.random = random.Random(f"{seed} {thread}")
        self.keys = [f"key {thread}.{number}" for number in range(KEYS_PER_THREAD)]
        self.name = f"{run}-{thread}"
        self.sent = count()
        self.deferred: list[tuple[str, int]] = []
        self.sender = client.get_queue_sender(queue)
        self.receiver = client.get_queue_receiver(queue, prefetch_count=thread % 3 * 5)
        self.taker = client.get_queue_receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)

    def work(self) -> None:
        """Work until the process is killed."""
        verbs = [self.send, self.receive, self.fetch, self.take]
        while True:
            (verb,) = self.random.choices(verbs, weights=[45, 40, 10, 5])
            verb()

    def send(self) -> None:
        """Send one message or a batch with one of the keys."""
        key = self.random.choice(self.keys)
        uids = [f"{self.name}-{next(self.sent)}" for _ in range(self.random.choice([1, 1, 2, 4]))]
        messages = [message(uid, key) for uid in uids]
        level = self.random.choice([None, None, "os", "fsync"])
        self.log.call(
            self.queue,
            "send",
            lambda: self.sender.send_messages(messages if len(uids) > 1 else messages[0], durability=level),
            uids,
            key=key,
        )

    def receive(self) -> None:
        """Receive some messages and settle each, or all at once."""
        limit = self.random.choice([1, 2, 5])
        messages = self.log.call(
            self.queue, "receive", lambda: self.receiver.receive_messages(limit, max_wait_time=0), [], limit=limit
        )
        if messages and self.random.random() < 0.2:
            uids = [str(each.message_id) for each in messages]
            self.log.call(self.queue, "complete", lambda: self.receiver.complete_messages(messages), uids)
            return
        for each in messages:
            self.settle(each)

    def fetch(self) -> None:
        """Fetch a deferred message by its number."""
        if self.deferred:
            uid, number = self.deferred.pop(self.random.randrange(len(self.deferred)))
            (fetched,) = self.log.call(
                self.queue, "fetch", lambda: self.receiver.receive_deferred_messages(number), [uid], limit=1
            )
            self.settle(fetched)

    def take(self) -> None:
        """Receive and delete a message."""
        self.log.call(self.queue, "take", lambda: self.taker.receive_messages(1, max_wait_time=0), [], limit=1)

    def settle(self, received: ServiceBusReceivedMessage) -> None:
        """Settle a message in a random way, or keep it locked until the process ends."""
        settlements: dict[str, Callable[[], None]] = {
            "complete": lambda: self.receiver.complete_message(received),
            "abandon": lambda: self.receiver.abandon_message(received),
            "defer": lambda: self.receiver.defer_message(received),
            "dead_letter": lambda: self.receiver.dead_letter_message(received, REASON),
        }
        (verb,) = self.random.choices([*settlements, "keep"], weights=[55, 15, 12, 6, 12])
        if verb == "keep":
            return
        uid = str(received.message_id)
        self.log.call(self.queue, verb, settlements[verb], [uid])
        if verb == "defer" or (verb == "abandon" and received.state == ServiceBusMessageState.DEFERRED):
            self.deferred.append((uid, received.sequence_number))


def take_checkpoints(namespace: Namespace, chance: random.Random) -> None:
    """Take checkpoints continuously while the other threads work."""
    while True:
        time.sleep(chance.uniform(0, LONGEST_PAUSE_SECONDS))
        namespace.checkpoint()


def take_backups(namespace: Namespace, log: Log, target: str) -> None:
    """Take backups continuously, and log what lies before and after the moment of each."""
    while True:
        log.write(do="backup", phase="begin")
        is_begun = False

        def begun(_copied: int, _all: int) -> None:
            nonlocal is_begun
            if not is_begun:
                log.write(do="backup", phase="begun")
            is_begun = True

        saved = backup(namespace, target, progress=begun)
        log.write(do="backup", phase="saved", name=saved.directory.name)


def make_queues(namespace: Namespace) -> None:
    """Create the missing queues."""
    admin = ServiceBusAdministrationClient(namespace)
    for name, partitioned in QUEUES.items():
        try:
            admin.get_queue(name)
        except MessagingEntityNotFoundError:
            admin.create_queue(
                name,
                enable_partitioning=partitioned,
                lock_duration=timedelta(minutes=30),
                max_delivery_count=MOST_DELIVERIES,
            )


def main(directory: str, log: str, seed: str, level: str, memory_limit_bytes: str, backups: str | None = None) -> None:
    """Open the namespace, print a line, and let the threads work until the process is killed."""
    limit = int(memory_limit_bytes) if memory_limit_bytes else None
    namespace = Namespace(directory, partitions=PARTITIONS, durability=level, memory_limit_bytes=limit)
    make_queues(namespace)
    client = ServiceBusClient(namespace)
    run = os.path.basename(log).partition(".")[0]  # noqa: PTH119 - a name, not a path
    names = list(QUEUES)
    lines = Log(log)
    workers = [Worker(client, lines, names[thread % len(names)], thread, seed, run) for thread in range(THREADS)]
    for name in names:
        mine = [worker for worker in workers if worker.queue == name]
        with client.get_queue_receiver(name) as browser:
            while batch := browser.peek_messages(max_message_count=250):
                for number, each in enumerate(batch):
                    if each.state == ServiceBusMessageState.DEFERRED:
                        mine[number % len(mine)].deferred.append((str(each.message_id), each.sequence_number))
    threads = [threading.Thread(target=worker.work, daemon=True) for worker in workers]
    chance = random.Random(f"{seed} checkpoints")
    if chance.random() < CHECKPOINTS_SHARE:
        threads.append(threading.Thread(target=take_checkpoints, args=(namespace, chance), daemon=True))
    if backups is not None:
        threads.append(threading.Thread(target=take_backups, args=(namespace, lines, backups), daemon=True))
    for thread in threads:
        thread.start()
    print("working", flush=True)  # noqa: T201 - the test waits for it
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
