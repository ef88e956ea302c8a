# SPDX-License-Identifier: Apache-2.0
"""A store keeps what is live and little more: what was settled is deleted, and what stays is moved together."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from stored_bytes import stored_bytes

if TYPE_CHECKING:
    from oxbus import Namespace, ServiceBusReceivedMessage
    from stored_server import StoredPlace

BODY_BYTES = 10_240
LIST = 100
MESSAGES = 24_000
STAYS_EVERY = 10
"""One message in this many stays, so that something of each object stays."""
SPARE_BYTES = 64 << 20
SECONDS_MAX = 60


def send_all(namespace: Namespace) -> None:
    """Send the messages."""
    with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
        for first in range(0, MESSAGES, LIST):
            numbers = range(first, first + LIST)
            sender.send_messages([ServiceBusMessage(body_of(n), message_id=str(n)) for n in numbers])


def body_of(number: int) -> bytes:
    """A body that only this message has."""
    return number.to_bytes(8, "big") * (BODY_BYTES // 8)


def settle(namespace: Namespace) -> None:
    """Complete nine messages of ten, and defer the tenth."""
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("q") as receiver:
        seen = 0
        while seen < MESSAGES:
            batch = receiver.receive_messages(LIST, max_wait_time=SECONDS_MAX)
            assert batch, "the sender stopped"
            receiver.defer_messages([message for message in batch if is_kept(message)])
            receiver.complete_messages([message for message in batch if not is_kept(message)])
            seen += len(batch)


def is_kept(message: ServiceBusReceivedMessage) -> bool:
    """Whether the message stays."""
    return int(message.message_id or "") % STAYS_EVERY == 0


def peek_all(namespace: Namespace) -> dict[int, bytes]:
    """Return the bodies of all messages by their numbers."""
    found: dict[int, bytes] = {}
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("q") as receiver:
        while page := receiver.peek_messages(1000):
            found |= {int(message.message_id or ""): bytes(message) for message in page}
    return found


def test_the_store_keeps_twice_what_is_live_and_64_mib_at_most(place: StoredPlace) -> None:
    """Nine messages of ten are settled while more are sent: within a minute after the load the rest takes no more."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        settling = threading.Thread(target=settle, args=(namespace,))
        settling.start()
        send_all(namespace)
        settling.join()
        kept = range(0, MESSAGES, STAYS_EVERY)
        bound = 2 * len(kept) * BODY_BYTES + SPARE_BYTES
        assert bound < MESSAGES * BODY_BYTES, "without deletion the test would fail"
        end = time.monotonic() + SECONDS_MAX
        while (taken := stored_bytes(place)) > bound and time.monotonic() < end:
            time.sleep(0.5)
        assert taken <= bound
    with place.open() as namespace:
        assert peek_all(namespace) == {number: body_of(number) for number in kept}
