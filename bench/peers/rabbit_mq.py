# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ, one node: a quorum queue at the level `fsync`, a classic queue in memory.

Server settings: as they come; no plugins; its port mapper is a child of the bench too.
A quorum queue syncs its log before it confirms a publish; a classic queue with messages that are not persistent keeps
them in memory. A durable classic queue confirms after a sync of another kind, so it has no level `os`.
Client settings: the package pika, a blocking connection per thread over loopback, publisher confirms.
A hundred messages are published at once and all confirms awaited, through the channel below the blocking one, which
would wait for each. Receivers are consumers with a prefetch of 200; a hundred acknowledgements are 100 frames in one
write, answered by nothing: AMQP 0-9-1 does not confirm them.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pika

from peers.contract import BenchQueue, Delivery, Level, PerThread
from peers.rabbit_server import RabbitServer, until_it_answers
from peers.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUEUE = "bench"
PREFETCH = 200
PERSISTENT, TRANSIENT = 2, 1


class Connection:
    """A connection with a channel that publishes and one that consumes."""

    def __init__(self, port: int, mode: int) -> None:
        parameters = pika.ConnectionParameters(LOOPBACK, port, heartbeat=0)
        self._connection: Any = pika.BlockingConnection(parameters)
        self._publisher: Any = self._connection.channel()
        self._properties = pika.BasicProperties(delivery_mode=mode)
        self._raw = self._publisher._impl  # noqa: SLF001 -- the blocking face waits for each confirm
        self._confirmed = self._published = 0
        self._raw.confirm_delivery(self._on_confirm)
        self._consumer: Any = None
        self._buffer: list[Delivery] = []

    def _on_confirm(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            raise RuntimeError("the server refused a message")
        # Several confirms at once name only the last message; single ones may come in any order.
        if frame.method.multiple:
            self._confirmed = max(self._confirmed, frame.method.delivery_tag)
        else:
            self._confirmed += 1

    def declare(self, arguments: dict[str, Any], *, durable: bool) -> None:
        """Make the queue, unless it is there."""
        channel = self._connection.channel()
        channel.queue_declare(QUEUE, durable=durable, arguments=arguments)
        channel.close()

    def publish(self, bodies: Sequence[bytes]) -> None:
        """Publish all, and wait for all confirms."""
        for body in bodies:
            self._raw.basic_publish("", QUEUE, body, self._properties)
        self._published += len(bodies)
        # The blocking publish flushes after one message; `process_data_events` would not wake up for a confirm.
        self._connection._flush_output(lambda: self._confirmed >= self._published)  # noqa: SLF001

    def consume(self) -> None:
        """Make the consumer, if there is none."""
        if self._consumer is None:
            self._consumer = self._connection.channel()
            self._consumer.basic_qos(prefetch_count=PREFETCH)
            self._consumer.basic_consume(QUEUE, self._on_message)

    def _on_message(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self._buffer.append((method.delivery_tag, body))

    def take(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Take what the consumer was sent."""
        self.consume()
        if len(self._buffer) < max_count:
            self._connection.process_data_events(time_limit=0)
        until = time.monotonic() + wait_seconds
        while not self._buffer and (left := until - time.monotonic()) > 0:
            self._connection.process_data_events(time_limit=left)
        taken, self._buffer = self._buffer[:max_count], self._buffer[max_count:]
        return taken

    def acknowledge(self, tags: Sequence[int]) -> None:
        """Write out the acknowledgements."""
        for tag in tags:
            self._consumer._impl.basic_ack(tag)  # noqa: SLF001 -- the blocking face writes out each
        self._connection.process_data_events(time_limit=0)

    def stop_consuming(self) -> None:
        """Give back what was sent ahead."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
            self._buffer = []

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(Exception):  # the server may be gone
            self._connection.close()


class RabbitMq(BenchQueue):
    """A queue of RabbitMQ."""

    name = "RabbitMQ"
    levels: ClassVar[tuple[Level, ...]] = (Level.FSYNC, Level.MEMORY)
    count_for_memory = 200_000

    def __init__(self, directory: Path, level: Level) -> None:
        self._server = RabbitServer(directory)
        self.version, port = self._server.version, self._server.port
        mode = PERSISTENT if level is Level.FSYNC else TRANSIENT
        self._connections = PerThread(lambda: until_it_answers(lambda: Connection(port, mode)), Connection.close)
        quorum = {"x-queue-type": "quorum"} if level is Level.FSYNC else {}
        self._connections.get().declare(quorum, durable=level is Level.FSYNC)

    def attach(self) -> None:
        """Connect the thread."""
        self._connections.get()

    def attach_receiver(self) -> None:
        """Connect the thread and its consumer."""
        self._connections.get().consume()

    def detach(self) -> None:
        """Give back what was sent ahead."""
        self._connections.get().stop_consuming()

    def send(self, body: bytes) -> None:
        """Publish, and wait for the confirm."""
        self._connections.get().publish([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Publish all, and wait for all confirms."""
        self._connections.get().publish(bodies)

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Take what the consumer was sent."""
        return self._connections.get().take(max_count, wait_seconds)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge."""
        self._connections.get().acknowledge(tokens)

    def server_pid(self) -> int:
        """The server's."""
        return self._server.pid

    def close(self) -> None:
        """Close the connections, stop the server."""
        self._connections.close()
        self._server.stop()
