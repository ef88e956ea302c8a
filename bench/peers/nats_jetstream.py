# SPDX-License-Identifier: Apache-2.0
"""NATS JetStream: a work-queue stream on files or in memory, with one pull consumer.

Server settings: `sync_interval: always` at the level `fsync`, its default of two minutes at `os`; one replica.
Client settings: the package nats-py; each thread has a connection and an event loop that runs only inside its calls.
A send waits for the stream's acknowledgement, and ours is a double one (`ack_sync`), so both have reached the level.
The server does not report whether it also synced the state of the consumer; the flushes per message show it.
A hundred messages are one atomic batch, which syncs a few times instead of a hundred; acknowledgements know no batches
that two receivers could share, so a hundred of them are under way at once.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import nats
from cases.case import expect
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from peers import programs
from peers.contract import LOCK_SECONDS, BenchQueue, Delivery, Level, PerThread
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

STREAM = "bench"
SUBJECT = "bench.messages"
CONSUMER = "receivers"
TIMEOUT_SECONDS = 60
SHORTEST_WAIT_SECONDS = 0.05

Answer = TypeVar("Answer")


class Connection:
    """A connection whose event loop runs while one of its calls does."""

    def __init__(self, port: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self._loop = asyncio.new_event_loop()
        self._subscription: Any = None
        self.client = self.run(nats.connect(f"nats://{LOOPBACK}:{port}", allow_reconnect=False))
        self.stream = self.client.jetstream(timeout=timeout)

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run the loop until this is done."""
        return self._loop.run_until_complete(work)

    def subscription(self) -> Any:
        """The consumer of the thread."""
        if self._subscription is None:
            self._subscription = self.run(self.stream.pull_subscribe_bind(consumer=CONSUMER, stream=STREAM))
        return self._subscription

    def close(self) -> None:
        """Close it, and the loop."""
        self.run(self.client.close())
        self._loop.close()


class NatsJetStream(BenchQueue):
    """A stream that lets go of what is acknowledged."""

    name = "NATS JetStream"
    levels: ClassVar[tuple[Level, ...]] = (Level.FSYNC, Level.OS, Level.MEMORY)
    count_for_memory = 200_000

    def __init__(self, directory: Path, level: Level) -> None:
        program = programs.nats_server()
        self.version = program.version
        port = free_port()
        interval = "always" if level is Level.FSYNC else "2m"
        file = directory / "nats.conf"
        file.write_text(
            f'listen: "{LOOPBACK}:{port}"\njetstream {{\n  store_dir: "{directory}"\n  sync_interval: {interval}\n}}\n',
            encoding="utf-8",
        )
        self._server = Server(program, ["--config", str(file)], directory, port)
        self._connections = PerThread(lambda: Connection(port), Connection.close)
        connection = self._connections.get()
        storage = StorageType.MEMORY if level is Level.MEMORY else StorageType.FILE
        connection.run(declare(connection.stream, storage))

    def attach(self) -> None:
        """Connect the thread and bind it to the consumer."""
        self._connections.get().subscription()

    def send(self, body: bytes) -> None:
        """Publish, and wait for the stream."""
        connection = self._connections.get()
        connection.run(connection.stream.publish(SUBJECT, body))

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Publish one atomic batch, and wait for the stream to commit it."""
        connection = self._connections.get()
        connection.run(_publish_batch(connection.client, bodies))

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Fetch a batch."""
        connection = self._connections.get()
        wait = max(wait_seconds, SHORTEST_WAIT_SECONDS)
        try:
            messages = connection.run(connection.subscription().fetch(max_count, timeout=wait))
        except (NatsTimeoutError, TimeoutError):  # the client raises either
            return []
        return [(message, message.data) for message in messages]

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Acknowledge, and wait for the server's confirmation."""

        async def acknowledge() -> None:
            await asyncio.gather(*[message.ack_sync(timeout=TIMEOUT_SECONDS) for message in tokens])

        self._connections.get().run(acknowledge())

    def server_pid(self) -> int:
        """The server's."""
        return self._server.pid

    def close(self) -> None:
        """Close the connections and stop the server."""
        self._connections.close()
        self._server.stop()


async def _publish_batch(client: Any, bodies: Sequence[bytes]) -> None:
    batch = uuid.uuid4().hex
    headers = [{"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)} for place in range(1, len(bodies) + 1)]
    for body, header in zip(bodies[:-1], headers[:-1], strict=True):
        await client.publish(SUBJECT, body, headers=header)
    last = {**headers[-1], "Nats-Batch-Commit": "1"}
    answer = await client.request(SUBJECT, bodies[-1], timeout=TIMEOUT_SECONDS, headers=last)
    expect("messages of the batch", json.loads(answer.data).get("count"), len(bodies))


async def declare(stream: Any, storage: StorageType, replicas: int = 1) -> None:
    """Make the stream and its consumer, unless they are there."""
    try:
        await stream.stream_info(STREAM)
    except NotFoundError:
        await stream.add_stream(
            StreamConfig(
                name=STREAM,
                subjects=[SUBJECT],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=storage,
                num_replicas=replicas,
                allow_atomic=True,
            )
        )
        await stream.add_consumer(
            STREAM,
            ConsumerConfig(
                durable_name=CONSUMER,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=LOCK_SECONDS,
                max_ack_pending=-1,
                max_waiting=512,
            ),
        )
