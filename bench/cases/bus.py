# SPDX-License-Identifier: Apache-2.0
"""A fresh namespace in memory with one partitioned queue, what goes into it, and how it comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import oxbus
from bodies import read_message
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

BATCH = 100
QUEUE = "bench"


@dataclass
class Bus:
    """A fresh namespace in memory with one partitioned queue."""

    namespace: oxbus.Namespace
    client: ServiceBusClient
    sender: oxbus.ServiceBusSender
    receiver: oxbus.ServiceBusReceiver
    admin: ServiceBusAdministrationClient
    bodies: list[bytes]
    prepared: Any = None

    @property
    def body_bytes(self) -> int:
        """How long each body is."""
        return len(self.bodies[0])

    def remaining(self) -> int:
        """Messages in the queue, locked ones included."""
        return self.admin.get_queue_runtime_properties(QUEUE).total_message_count or 0

    def close(self) -> None:
        """Close the client, then the namespace."""
        self.client.close()
        self.namespace.close()


def open_bus(bodies: list[bytes] | None = None, *, partitioned: bool = True, **options: Any) -> Bus:
    """Open one, its queue with `options`; every case starts with its own."""
    namespace = oxbus.Namespace()
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue(QUEUE, enable_partitioning=partitioned, **options)
    client = ServiceBusClient(namespace)
    sender, receiver = client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE)
    return Bus(namespace, client, sender, receiver, admin, bodies or [])


def fill(bus: Bus) -> Bus:
    """Send all bodies, by the hundred."""
    for start in range(0, len(bus.bodies), BATCH):
        bus.sender.send_messages([ServiceBusMessage(body) for body in bus.bodies[start : start + BATCH]])
    return bus


def hundreds(messages: list[Any]) -> list[list[Any]]:
    """Slices of a hundred."""
    return [messages[start : start + BATCH] for start in range(0, len(messages), BATCH)]


def drain(receiver: oxbus.ServiceBusReceiver, at_once: int, body_bytes: int, *, read: bool = True) -> int:
    """Receive, read and complete all messages, up to `at_once` with a call; return their number."""
    receive, complete, complete_many, count = (
        receiver.receive_messages,
        receiver.complete_message,
        receiver.complete_messages,
        0,
    )
    if at_once == 1:
        while messages := receive(max_wait_time=0):
            (message,) = messages
            if read:
                read_message(message, body_bytes)
            complete(message)
            count += 1
        return count
    while messages := receive(at_once, max_wait_time=0):
        if read:
            for message in messages:
                read_message(message, body_bytes)
        complete_many(messages)
        count += len(messages)
    return count
