# SPDX-License-Identifier: Apache-2.0
"""A namespace with one of sixteen partitions out of service, for outage tests.

Each row of the matrix of docs/behaviour.md section 3.1 is a generator: its steps before the outage, its checks while
partition 3 is down, and its checks after it heals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import PartitionUnavailableError
from oxbus.management import EntityAvailabilityStatus, ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock


ALL = range(16)


BAD = 3


GOOD = [partition_id for partition_id in ALL if partition_id != BAD]


KEYS = {
    partition_id: next(key for key in (f"key-{n}" for n in range(10_000)) if oxbus.partition_id(key) == partition_id)
    for partition_id in ALL
}
"""One key for each partition."""


OUTAGES = {
    "memory": ("memory", "unavailable"),
    "durable": ("durable", "unavailable"),
    "durable, failed disk": ("durable", "eio-write"),
}
"""Stores, and faults that take the partition out of service."""


EMPTY_RECEIVES = 3


LIMITED = EntityAvailabilityStatus.LIMITED


AVAILABLE = EntityAvailabilityStatus.AVAILABLE


def home_in(partition_id: int, *taken: str) -> str:
    """The name of a plain queue whose home partition is the given one."""
    names = (f"plain-{number}" for number in range(10_000))
    return next(name for name in names if name not in taken and oxbus.partition_id(name) == partition_id)


HOMED = home_in(BAD)


ELSEWHERE = home_in(GOOD[0])


class Scene:
    """A namespace with one entity of each kind, of which partition 3 can fail."""

    def __init__(self, namespace: Namespace, clock: ManualClock, fault: str) -> None:
        self.namespace = namespace
        self.clock = clock
        self.client = ServiceBusClient(namespace)
        self.admin = ServiceBusAdministrationClient(namespace)
        self._fault = fault
        self._receivers: dict[tuple[str, ...], ServiceBusReceiver] = {}
        self.admin.create_queue("q", enable_partitioning=True)
        self.admin.create_queue("ids", enable_partitioning=True, requires_duplicate_detection=True)
        self.admin.create_queue("sessions", enable_partitioning=True, requires_session=True)
        self.admin.create_queue(HOMED)
        self.admin.create_queue(ELSEWHERE)
        self.admin.create_topic("news", enable_partitioning=True)
        self.admin.create_subscription("news", "all")
        self.admin.create_subscription("news", "some")

    def fail(self, *partitions: int) -> None:
        """Take the partition out of service, or others."""
        for partition_id in partitions or (BAD,):
            inject_fault(self.namespace, partition_id, self._fault)
            # The next write detects a failed disk.
            with pytest.raises(PartitionUnavailableError) as refusal:
                self.send("never acknowledged", partition_key=KEYS[partition_id])
            assert refusal.value.is_transient

    def heal(self, *partitions: int) -> None:
        """End the outage."""
        for partition_id in partitions or (BAD,):
            heal(self.namespace, partition_id)
        assert {entry.status for entry in self.namespace.partition_health()} == {"healthy"}

    def sender(self, entity: str = "q") -> ServiceBusSender:
        """A sender to a queue, or to the topic."""
        if entity == "news":
            return self.client.get_topic_sender(entity)
        return self.client.get_queue_sender(entity)

    def send(self, *texts: str, to: str = "q", **options: Any) -> None:
        """Send each text as a separate message."""
        with self.sender(to) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, **options))

    def send_to_each(self, text: str, *, to: str = "q", partitions: Any = ALL) -> None:
        """Send a text to each partition, followed by its number."""
        for partition_id in partitions:
            self.send(f"{text} {partition_id}", to=to, partition_key=KEYS[partition_id])

    def receiver(self, *path: str, **options: Any) -> ServiceBusReceiver:
        """The cached receiver of a queue or subscription; with options a new one."""
        get = self.client.get_queue_receiver if len(path) < 2 else self.client.get_subscription_receiver
        path = path or ("q",)
        if options:
            return get(*path, **options)
        return self._receivers.setdefault(path, get(*path))

    def take(self, *path: str, **options: Any) -> list[ServiceBusReceivedMessage]:
        """Receive all available messages."""
        return drain(self.receiver(*path, **options))

    def take_from(self, partition_id: int, *path: str) -> ServiceBusReceivedMessage:
        """Receive all, and return the one message of a partition."""
        (message,) = (message for message in self.take(*path) if message.partition_id == partition_id)
        return message

    def peek(self, *path: str) -> list[str]:
        """The texts of all messages that peek shows, sorted."""
        found: list[str] = []
        with self.receiver(*path, prefetch_count=0) as browser:
            while batch := browser.peek_messages(100):
                found += map(str, batch)
        return sorted(found)

    def accept(self, session_id: Any) -> ServiceBusReceiver:
        """Accept a session without waiting."""
        return self.client.get_queue_receiver("sessions", session_id=session_id, max_wait_time=0).__enter__()


def drain(receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    """Receive until several receives in a row are empty, since one may return fewer messages than exist (B-135)."""
    messages: list[ServiceBusReceivedMessage] = []
    empty = 0
    while empty < EMPTY_RECEIVES:
        batch = receiver.receive_messages(max_message_count=100, max_wait_time=0)
        messages += batch
        empty = 0 if batch else empty + 1
    return messages


def id_of(receiver: ServiceBusReceiver) -> str | None:
    """The id of the session that a receiver has accepted."""
    assert receiver.session is not None
    return receiver.session.session_id


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, sorted."""
    return sorted(map(str, messages))


def each(text: str, partitions: Any) -> list[str]:
    """The texts that `Scene.send_to_each` sent to some partitions."""
    return sorted(f"{text} {partition_id}" for partition_id in partitions)


def refused(*calls: Callable[[], Any]) -> None:
    """Check that each call fails with a transient error for the partition."""
    for call in calls:
        with pytest.raises(PartitionUnavailableError) as refusal:
            call()
        assert refusal.value.is_transient


def run_story(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Run a row of the matrix before, during and after the outage; the partition works again after it."""
    story = operation(scene)
    next(story)
    scene.fail()
    next(story)
    if any(entry.status != "healthy" for entry in scene.namespace.partition_health()):
        scene.heal()
    with pytest.raises(StopIteration):
        next(story)
    scene.send("alive", partition_key=KEYS[BAD])
    found = scene.peek()
    assert "alive" in found
    assert "never acknowledged" not in found
