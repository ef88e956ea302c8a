# SPDX-License-Identifier: Apache-2.0
"""A fresh namespace in memory with one partitioned queue, and what goes into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import oxbus
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

    def left(self) -> int:
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


def bodies_of(size: int, count: int) -> list[bytes]:
    """Distinct bodies of `size` bytes."""
    return [number.to_bytes(8, "big") * (size // 8) + b"." * (size % 8) for number in range(count)]


def fill(bus: Bus) -> Bus:
    """Send all bodies, by the hundred."""
    for start in range(0, len(bus.bodies), BATCH):
        bus.sender.send_messages([ServiceBusMessage(body) for body in bus.bodies[start : start + BATCH]])
    return bus


def hundreds(messages: list[Any]) -> list[list[Any]]:
    """Slices of a hundred."""
    return [messages[start : start + BATCH] for start in range(0, len(messages), BATCH)]
