# SPDX-License-Identifier: Apache-2.0
"""Ours: a partitioned queue of a durable namespace, or of one in memory.

Settings: 16 partitions, the default; the namespace's durability is the level.
Messages carry no key, so they go to the partitions in turn.
Each thread has its own sender and receiver; a receiver has its default settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import oxbus
from bodies import read_message
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient

from peers.contract import BenchQueue, Delivery, Level, PerThread, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUEUE = "bench"


@dataclass
class Ends:
    """A sender and a receiver of one thread."""

    sender: oxbus.ServiceBusSender
    receiver: oxbus.ServiceBusReceiver

    def close(self) -> None:
        """Close both."""
        self.sender.close()
        self.receiver.close()


class OxbusQueue(BenchQueue):
    """A queue of oxbus."""

    name = "oxbus"
    levels = (Level.FSYNC, Level.OS, Level.MEMORY)

    def __init__(self, directory: Path, level: Level) -> None:
        self.version = metadata.version("oxbus")
        try:
            if level is Level.MEMORY:
                self._namespace = oxbus.Namespace()
            else:
                self._namespace = oxbus.Namespace(str(directory / "namespace"), durability=level.value)
        except ServiceBusError as error:
            raise UnavailableError(str(error)) from error
        admin = ServiceBusAdministrationClient(self._namespace)
        if QUEUE not in [queue.name for queue in admin.list_queues()]:
            admin.create_queue(QUEUE, enable_partitioning=True)
        self._client = ServiceBusClient(self._namespace)
        self._ends = PerThread(self._connect, Ends.close)

    def _connect(self) -> Ends:
        return Ends(self._client.get_queue_sender(QUEUE), self._client.get_queue_receiver(QUEUE))

    def attach(self) -> None:
        """Make the thread's sender and receiver."""
        self._ends.get()

    def send(self, body: bytes) -> None:
        """Send a message."""
        self._ends.get().sender.send_messages(ServiceBusMessage(body))

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Send a list."""
        self._ends.get().sender.send_messages([ServiceBusMessage(body) for body in bodies])

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Receive in peek-lock mode."""
        messages = self._ends.get().receiver.receive_messages(max_count, max_wait_time=wait_seconds)
        return [(message, b"".join(message.body or ())) for message in messages]

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Complete the messages."""
        receiver = self._ends.get().receiver
        if len(tokens) == 1:
            receiver.complete_message(tokens[0])
        else:
            receiver.complete_messages(list(tokens))

    def send_all(self, bodies: Sequence[bytes], size: int) -> None:
        """Send everything with the thread's sender."""
        send = self._ends.get().sender.send_messages
        if size == 1:
            for body in bodies:
                send(ServiceBusMessage(body))
        else:
            for start in range(0, len(bodies), size):
                send([ServiceBusMessage(body) for body in bodies[start : start + size]])

    def drain(
        self, count: int, size: int, wait_seconds: float, body_bytes: int, keep: list[bytes] | None = None
    ) -> int:
        """Receive, read and complete with the thread's receiver."""
        receiver = self._ends.get().receiver
        receive, complete, complete_many = (
            receiver.receive_messages,
            receiver.complete_message,
            receiver.complete_messages,
        )
        done = 0
        while done < count and (messages := receive(size, max_wait_time=wait_seconds)):
            for message in messages:
                body = read_message(message, body_bytes)
                if keep is not None:
                    keep.append(body)
            if size == 1:
                complete(messages[0])
            else:
                complete_many(messages)
            done += len(messages)
        return done

    def close(self) -> None:
        """Close the client, then the namespace."""
        self._ends.close()
        self._client.close()
        self._namespace.close()
