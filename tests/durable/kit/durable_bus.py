# SPDX-License-Identifier: Apache-2.0
"""A namespace in a directory that a test closes and opens again, with the current client and receivers."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import QueueRuntimeProperties, ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

WAYS = ("close", "crash", "checkpoint and crash")
"""The ways in which a namespace ends before it is opened again."""

CLEAN_WAYS = ("close", "checkpoint and close")
COPIES_MAX = 10
PARTITIONS = 4
EMPTY_RECEIVES = 3
"""The number of consecutive empty receives that count as an empty queue, since one may miss messages (B-135)."""

FIELDS = (
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
    "application_properties",
    "time_to_live",
    "scheduled_enqueue_time_utc",
    "sequence_number",
    "partition_id",
    "enqueued_sequence_number",
    "enqueued_time_utc",
    "expires_at_utc",
    "delivery_count",
    "state",
    "body_type",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
)
COUNTS = (
    "total_message_count",
    "active_message_count",
    "dead_letter_message_count",
    "scheduled_message_count",
    "deferred_message_count",
    "locked_message_count",
    "size_in_bytes",
)


def body_of(message: ServiceBusReceivedMessage) -> bytes | None:
    """The whole body of a message; None if the message has no body."""
    return None if message.body is None else b"".join(message.body)


def described(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """All that a receiver can see of a message, apart from its lock."""
    return {name: getattr(message, name) for name in FIELDS} | {"body": body_of(message)}


def bodies(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, in the order of the messages."""
    return [str(message) for message in messages]


def copy_alive(source: Path, target: Path) -> None:
    """Copy a directory that is in use; start over if a file disappears, so that the copy is a state that existed."""
    for _ in range(COPIES_MAX):
        with contextlib.suppress(shutil.Error):
            shutil.copytree(source, target)
            return
        shutil.rmtree(target)
    pytest.fail(f"files of {source} disappear faster than they can be copied")


class Bus:
    """One directory and the namespace that has it open.

    A crash is a copy of the directory, made while the namespace is open: what a process that dies at that moment
    leaves behind. The next open uses the copy.
    """

    def __init__(self, path: Path, clock: ManualClock, **options: Any) -> None:
        self.path = self._home = path
        self._clock = clock
        self._options = {"partitions": PARTITIONS} | options
        self._crashes = 0
        self._namespace: Namespace | None = None
        self._client: ServiceBusClient | None = None
        self._receivers: dict[tuple[str, str | None], ServiceBusReceiver] = {}

    @property
    def namespace(self) -> Namespace:
        """The namespace that is open."""
        assert self._namespace is not None, "the namespace is closed"
        return self._namespace

    @property
    def client(self) -> ServiceBusClient:
        """A client of the namespace that is open."""
        assert self._client is not None, "the namespace is closed"
        return self._client

    @property
    def admin(self) -> ServiceBusAdministrationClient:
        """An administration client of the namespace that is open."""
        return ServiceBusAdministrationClient(self.namespace)

    def open(self, **options: Any) -> Namespace:
        """Open the directory with the options of the bus and those given here."""
        assert self._namespace is None, "the namespace is open already"
        self._namespace = Namespace(str(self.path), clock=self._clock, **self._options | options)
        self._client = ServiceBusClient(self._namespace)
        return self._namespace

    def close(self) -> None:
        """Close the namespace if it is open; locked messages stay locked until then."""
        if self._namespace is not None:
            self._namespace.close()
        self._namespace = self._client = None
        self._receivers.clear()

    def stop(self, way: str) -> None:
        """End the namespace in the given way."""
        if way.startswith("checkpoint"):
            self.namespace.checkpoint()
        if way.endswith("crash"):
            self._crashes += 1
            left_behind = self._home.with_name(f"{self._home.name}-crash-{self._crashes}")
            copy_alive(self.path, left_behind)
            self.close()
            shutil.rmtree(self.path)
            self.path = left_behind
        else:
            assert way.endswith("close"), way
            self.close()

    def reopen(self, way: str = "close", **options: Any) -> Namespace:
        """End the namespace in the given way and open the directory again."""
        self.stop(way)
        return self.open(**options)

    def sender(self, queue_name: str = "q") -> ServiceBusSender:
        """A new sender."""
        return self.client.get_queue_sender(queue_name)

    def send(self, *texts: str, queue_name: str = "q", **options: Any) -> None:
        """Send each text as a separate message."""
        with self.sender(queue_name) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, **options))

    def receiver(self, queue_name: str = "q", sub_queue: str | None = None) -> ServiceBusReceiver:
        """The peek-lock receiver of this queue, shared by all calls while the namespace is open."""
        key = (queue_name, sub_queue)
        if key not in self._receivers:
            self._receivers[key] = self.client.get_queue_receiver(queue_name, sub_queue=sub_queue)
        return self._receivers[key]

    def take(self, queue_name: str = "q", sub_queue: str | None = None) -> list[ServiceBusReceivedMessage]:
        """Receive and lock all that can be received."""
        receiver = self.receiver(queue_name, sub_queue)
        messages: list[ServiceBusReceivedMessage] = []
        empty = 0
        while empty < EMPTY_RECEIVES:
            batch = receiver.receive_messages(max_message_count=100, max_wait_time=0)
            messages += batch
            empty = 0 if batch else empty + 1
        return messages

    def take_one(self, queue_name: str = "q", sub_queue: str | None = None) -> ServiceBusReceivedMessage:
        """Receive and lock one message, or fail."""
        for _ in range(EMPTY_RECEIVES):
            messages = self.receiver(queue_name, sub_queue).receive_messages(max_message_count=1, max_wait_time=0)
            if messages:
                return messages[0]
        raise AssertionError(f"no message to receive from {queue_name}, sub-queue {sub_queue}")

    def peek(self, queue_name: str = "q", sub_queue: str | None = None) -> list[ServiceBusReceivedMessage]:
        """All messages of a queue or sub-queue, by number."""
        messages: list[ServiceBusReceivedMessage] = []
        with self.client.get_queue_receiver(queue_name, sub_queue=sub_queue) as browser:
            while batch := browser.peek_messages(max_message_count=100):
                messages += batch
        return sorted(messages, key=lambda message: message.sequence_number)

    def runtime(self, queue_name: str = "q") -> QueueRuntimeProperties:
        """The runtime properties of a queue."""
        return self.admin.get_queue_runtime_properties(queue_name)

    def observed_state(self, queue_name: str = "q") -> dict[str, Any]:
        """Everything a client can observe of an idle queue."""
        runtime = self.runtime(queue_name)
        return {
            "options": dict(self.admin.get_queue(queue_name).items()),
            "counts": {name: getattr(runtime, name) for name in COUNTS},
            "partitions": runtime.partitions,
            "messages": [described(message) for message in self.peek(queue_name)],
            "dead letters": [described(message) for message in self.peek(queue_name, "deadletter")],
        }
