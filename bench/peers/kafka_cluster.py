# SPDX-License-Identifier: Apache-2.0
"""Kafka in KRaft mode as three nodes, each broker and controller; a topic of three replicas, `min.insync.replicas=2`.

Server settings: 512 MiB of heap each, one partition, its default of leaving the sync to the system: what is
acknowledged is in the memory of two machines at least. The other settings, and the client's, are those of
`kafka_share.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from peers import kafka_storage, programs
from peers.cluster import NODES, ClusterQueue, start_nodes
from peers.contract import Level, UnavailableError
from peers.kafka_share import START_SECONDS, TIMEOUT_SECONDS, TOPIC, KafkaShareGroup, settings_of
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from pathlib import Path

JOIN_SECONDS = 60


class KafkaCluster(KafkaShareGroup, ClusterQueue):
    """A topic on three brokers, read by a share group."""

    name = "Kafka, share group, 3 nodes"
    levels = (Level.OS,)

    def __init__(self, directory: Path, level: Level = Level.OS) -> None:
        assert level is Level.OS
        program = programs.kafka_server()
        self.version = program.version
        ports = [free_port() for _ in range(NODES)]
        controllers = [free_port() for _ in range(NODES)]
        cluster = kafka_storage.new_cluster()

        def start(number: int, folder: Path) -> Server:
            file = folder / "server.properties"
            file.write_text(settings_of(number + 1, ports, controllers, folder / "logs"), encoding="ascii")
            kafka_storage.format_for(program, file, START_SECONDS * NODES, cluster)
            arguments = ["-Xms512m", "-Xmx512m", "kafka.Kafka", str(file)]
            return Server(program, arguments, folder, ports[number], START_SECONDS * NODES)

        self._nodes = dict(enumerate(start_nodes(directory, start), 1))
        self._connect(",".join(f"{LOOPBACK}:{port}" for port in ports))
        try:
            self._wait_for_all()
            self._declare(NODES, **{"min.insync.replicas": str(NODES - 1)})
        except BaseException:
            self.close()
            raise

    def _admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self._servers, "log_level": 0})

    def _wait_for_all(self) -> None:
        """A topic of three replicas needs three brokers."""
        until = time.monotonic() + JOIN_SECONDS
        brokers = 0
        while time.monotonic() < until:
            try:
                brokers = len(self._admin().list_topics(timeout=5).brokers)
            except KafkaException:
                brokers = 0
            if brokers == NODES:
                return
            time.sleep(0.5)
        raise UnavailableError(f"{brokers} of {NODES} brokers joined")

    def kill_leader(self) -> float:
        """Kill the broker that leads the partition."""
        topic = self._admin().list_topics(TOPIC, timeout=TIMEOUT_SECONDS).topics[TOPIC]
        leader = topic.partitions[0].leader
        moment = time.monotonic()
        self._nodes.pop(leader).kill()
        return moment

    def send_once(self, body: bytes) -> None:
        """Produce, and wait for the delivery: the client asks the new leader by itself."""
        self.send(body)

    def reconnect(self) -> None:
        """Nothing: the client does it."""

    def close(self) -> None:
        """Close the clients, then end the brokers: one that is asked to waits for the others, which are ending, too."""
        self._consumers.close()
        self._producers.close()
        for node in self._nodes.values():
            node.kill()
