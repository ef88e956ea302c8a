# SPDX-License-Identifier: Apache-2.0
"""Kafka in KRaft mode, one node, a share group over one partition.

Server settings: 1 GiB of heap, one partition, one replica; at the level `fsync` `log.flush.interval.messages=1`, which
also holds for the log of the share group's states; at `os` its defaults. Heartbeats of share groups come each 500 ms,
so that joining does not take seconds.
Client settings: the package confluent-kafka; `acks=all`, `linger.ms=0`, a send waits for its delivery; explicit
acknowledgements, and `commit_sync` after each call.
A hundred messages are one `produce` each and one wait; a hundred acknowledgements one `commit_sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from peers import kafka_storage, programs
from peers.contract import BenchQueue, Delivery, Level, PerThread
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPIC = "bench"
GROUP = "receivers"
START_SECONDS = 60
TIMEOUT_SECONDS = 60
JOIN_SECONDS = 3
"""How long a new consumer asks for messages that are not there, so that it has joined when it is timed."""
_SETTINGS = """process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
group.share.min.heartbeat.interval.ms=100
group.share.heartbeat.interval.ms=500
group.share.partition.max.record.locks=10000
group.initial.rebalance.delay.ms=0
"""
_SYNCED = "log.flush.interval.messages=1\n"
_QUIET = {"log_level": 0}


def settings_of(node: int, ports: Sequence[int], controllers: Sequence[int], logs: Path) -> str:
    """The settings of one node of a cluster whose nodes have these ports; the first node is 1."""
    replicas = len(ports)
    return _SETTINGS.format(
        node=node,
        voters=",".join(f"{number}@{LOOPBACK}:{port}" for number, port in enumerate(controllers, 1)),
        host=LOOPBACK,
        port=ports[node - 1],
        controller_port=controllers[node - 1],
        logs=logs,
        replicas=replicas,
        in_sync=max(1, replicas - 1),
    )


class _Consumer:
    """A member of the share group."""

    def __init__(self, servers: str) -> None:
        self._consumer: Any = ShareConsumer(
            {"bootstrap.servers": servers, "group.id": GROUP, "share.acknowledgement.mode": "explicit", **_QUIET}
        )
        self._consumer.subscribe([TOPIC])
        self._buffer: list[Delivery] = []
        self._buffer = self.take(0, JOIN_SECONDS)

    def take(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        if not self._buffer:
            for message in self._consumer.poll(wait_seconds):
                if message.error():
                    raise RuntimeError(str(message.error()))
                self._buffer.append((message, message.value()))
        if max_count == 0:
            return self._buffer
        taken, self._buffer = self._buffer[:max_count], self._buffer[max_count:]
        return taken

    def acknowledge(self, messages: Sequence[Any]) -> None:
        for message in messages:
            self._consumer.acknowledge(message)
        for error in self._consumer.commit_sync(TIMEOUT_SECONDS).values():
            if error is not None:
                raise RuntimeError(str(error))

    def close(self) -> None:
        self._consumer.close()


class KafkaShareGroup(BenchQueue):
    """A topic read by a share group."""

    name = "Kafka, share group"
    levels: ClassVar[tuple[Level, ...]] = (Level.FSYNC, Level.OS)
    count_for_memory = None

    def __init__(self, directory: Path, level: Level) -> None:
        program = programs.kafka_server()
        self.version = program.version
        port, controller_port = free_port(), free_port()
        file, logs = directory / "server.properties", directory / "logs"
        text = settings_of(1, [port], [controller_port], logs)
        file.write_text(text + (_SYNCED if level is Level.FSYNC else ""), encoding="ascii")
        fresh = not logs.exists()
        if fresh:
            kafka_storage.format_for(program, file, START_SECONDS)
        arguments = ["-Xms1g", "-Xmx1g", "kafka.Kafka", str(file)]
        self._server = Server(program, arguments, directory, port, START_SECONDS)
        self._connect(f"{LOOPBACK}:{port}")
        if fresh:
            self._declare()

    def _connect(self, servers: str) -> None:
        self._servers = servers
        producer = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, **_QUIET}
        self._producers: PerThread[Any] = PerThread(lambda: Producer(producer), lambda one: one.flush(TIMEOUT_SECONDS))
        self._consumers = PerThread(lambda: _Consumer(servers), _Consumer.close)

    def _declare(self, replicas: int = 1, **settings: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers, **_QUIET})
        admin.create_topics([NewTopic(TOPIC, 1, replicas, config=settings)])[TOPIC].result(TIMEOUT_SECONDS)
        earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[earliest])
        for answer in admin.incremental_alter_configs([group]).values():
            answer.result(TIMEOUT_SECONDS)

    def attach(self) -> None:
        """Make the thread's producer."""
        self._producers.get()

    def attach_receiver(self) -> None:
        """Make the thread's producer, and let its consumer join."""
        self.attach()
        self._consumers.get()

    def detach(self) -> None:
        """Leave the group, which gives back what was fetched."""
        self._consumers.drop()

    def send(self, body: bytes) -> None:
        """Produce, and wait for the delivery."""
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        """Produce all, and wait for all deliveries."""
        producer = self._producers.get()
        refused: list[Any] = []

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                refused.append(error)

        for body in bodies:
            producer.produce(TOPIC, body, on_delivery=on_delivery)
        left = producer.flush(TIMEOUT_SECONDS)
        if left or refused:
            raise RuntimeError(f"{left} messages not delivered, {len(refused)} refused: {refused[:1]}")

    def receive(self, max_count: int, wait_seconds: float) -> list[Delivery]:
        """Take from what a poll acquired."""
        return self._consumers.get().take(max_count, wait_seconds)

    def acknowledge(self, tokens: Sequence[Any]) -> None:
        """Accept, and wait for the share group to have written it."""
        self._consumers.get().acknowledge(tokens)

    def close(self) -> None:
        """Close the clients, then stop the server."""
        self._consumers.close()
        self._producers.close()
        self._server.stop()
