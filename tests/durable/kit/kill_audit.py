# SPDX-License-Identifier: Apache-2.0
"""What the tests that kill a worker observe: its log, and the messages in its queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kill_messages import QUEUES, view
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from kill_history import Record

WORKER: Final = Path(__file__).with_name("kill_worker.py")
LIVENESS_SECONDS: Final = 120


def records(log: Path) -> list[Record]:
    """The records of a log; a last line that the kill cut off is dropped."""
    if not log.exists():
        return []
    whole, _, _ = log.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def peek_all(client: ServiceBusClient, queue: str, sub_queue: str | None = None) -> list[Record]:
    """Views of everything in a queue or its dead-letter queue."""
    views = []
    with client.get_queue_receiver(queue, sub_queue=sub_queue) as browser:
        while batch := browser.peek_messages(max_message_count=250):
            views += [view(each) for each in batch]
    return views


def audit(namespace: Namespace) -> list[Record]:
    """The current content of the queues."""
    found: list[Record] = []
    with ServiceBusClient(namespace) as client:
        for queue in QUEUES:
            counts = ServiceBusAdministrationClient(namespace).get_queue_runtime_properties(queue)
            found.append(
                {
                    "do": "audit",
                    "queue": queue,
                    "messages": peek_all(client, queue),
                    "dead_letters": peek_all(client, queue, "deadletter"),
                    "counts": {
                        "total": counts.total_message_count,
                        "active": counts.active_message_count,
                        "deferred": counts.deferred_message_count,
                        "dead": counts.dead_letter_message_count,
                        "locked": counts.locked_message_count,
                    },
                }
            )
    return found
