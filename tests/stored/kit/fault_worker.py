# SPDX-License-Identifier: Apache-2.0
"""A client of the fault suite in its own process: threads send, receive and settle, and log each call.

Run as ``fault_worker.py MODULE CONNECTION_STRING LOG NAME SEED``. MODULE is `oxbus` or `azure.servicebus`, which have
the same calls. Each line of the log is a list: `try`, an id, a verb and the messages of the call, before it; after it
`ack` or `fail`, the id, and what came of it. The SDK of Azure does not wait for the answer to a settlement, so what it
settles has no `ack`. No call is repeated.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import threading
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fault_messages import LOCK_SECONDS, QUEUES, body_of, is_as_sent, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_PAUSE_SECONDS: Final = 0.08
WAIT_SECONDS: Final = 1


class Log:
    """The log of one process: a line is one write, so that the lines of threads do not mix, and a kill cuts none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._ids = count()

    def write(self, *record: object) -> None:
        """Add one line."""
        os.write(self._file, (json.dumps([*record, time.time()]) + "\n").encode())

    def call(self, verb: str, function: Callable[[], Any], uids: list[str], *, is_confirmed: bool = True) -> Any:
        """Make a call between its two lines."""
        name = next(self._ids)
        self.write("try", name, verb, uids)
        try:
            result = function()
        except Exception as error:
            self.write("fail", name, repr(error)[:200])
            raise
        if is_confirmed:
            self.write("ack", name, [_view(message) for message in result or ()])
        return result


def _view(message: Any) -> tuple[str, bool, float]:
    """The id of a message, whether it is as it was sent, and when it was handed out."""
    until = message.locked_until_utc
    return str(message.message_id), is_as_sent(message), until.timestamp() - LOCK_SECONDS if until else 0.0


class Worker:
    """One thread. It begins again with a new connection after each error."""

    def __init__(self, module: Any, connection_string: str, log: Log, name: str, queue: str, seed: str) -> None:
        self.module, self.connection_string, self.log, self.name = module, connection_string, log, name
        self.queue = queue
        self.chance = random.Random(f"{seed} {name}")
        self.queue = self.chance.choice(list(QUEUES))
        self.sent = count()
        self.confirms = module.__name__ == "oxbus"

    def run(self, work: Callable[[Any], None]) -> None:
        """Work until the process is killed."""
        while True:
            try:
                with self.module.ServiceBusClient.from_connection_string(
                    self.connection_string, retry_total=0
                ) as client:
                    work(client)
            except Exception:  # noqa: BLE001 (the log has it)
                time.sleep(0.1)

    def send(self, client: Any) -> None:
        """Send messages, one or a few at a time."""
        with client.get_queue_sender(self.queue) as sender:
            while True:
                uids = [f"{self.name}-{next(self.sent)}" for _ in range(self.chance.choice([1, 1, 2, 5]))]
                messages = [
                    self.module.ServiceBusMessage(
                        body_of(uid), message_id=uid, application_properties={"mark": mark_of(uid)}
                    )
                    for uid in uids
                ]
                self.log.call("send", partial(sender.send_messages, messages), uids)
                time.sleep(self.chance.uniform(0, LONGEST_PAUSE_SECONDS))

    def receive(self, client: Any) -> None:
        """Receive messages and settle each in some way, or keep it locked."""
        with client.get_queue_receiver(self.queue) as receiver:
            while True:
                limit = self.chance.choice([1, 5, 20])
                receive = partial(receiver.receive_messages, limit, max_wait_time=WAIT_SECONDS)
                found = self.log.call("receive", receive, [])
                for message in found:
                    self.settle(receiver, message)

    def settle(self, receiver: Any, message: Any) -> None:
        """Settle a message in some way, or keep it locked."""
        (verb,) = self.chance.choices(["complete", "abandon", "dead_letter", "keep"], weights=[86, 7, 5, 2])
        if verb != "keep":
            settle = getattr(receiver, f"{verb}_message")
            uid = str(message.message_id)
            self.log.call(verb, lambda: settle(message), [uid], is_confirmed=self.confirms)


def main(module: str, connection_string: str, log: str, name: str, seed: str) -> None:
    """Work with two threads that send and three that receive."""
    lines, imported = Log(log), importlib.import_module(module)
    threads = []
    for number, verb in enumerate(["send", "receive", "send", "receive", "receive"]):
        queue = list(QUEUES)[number // 2 % len(QUEUES)]
        worker = Worker(imported, connection_string, lines, f"{name}.{number}", queue, seed)
        threads.append(threading.Thread(target=worker.run, args=(getattr(worker, verb),), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
