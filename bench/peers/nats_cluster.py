# SPDX-License-Identifier: Apache-2.0
"""NATS JetStream as three nodes, a stream of three replicas, `sync_interval: always`.

A client's thread connects to the node that leads the stream, which is the node that is killed.
Other settings are those of `nats_jetstream.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nats.js.api import StorageType

from peers import programs
from peers.cluster import NODES, ClusterQueue, start_nodes
from peers.contract import Level, PerThread, UnavailableError
from peers.nats_jetstream import STREAM, SUBJECT, Connection, NatsJetStream, declare
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from pathlib import Path

JOIN_SECONDS = 60
SHORT_SECONDS = 0.25
"""How long a client waits for one answer before it asks again, while a leader is missing."""
_SETTINGS = """server_name: "{name}"
listen: "{host}:{port}"
jetstream {{
  store_dir: "{directory}"
  sync_interval: always
}}
cluster {{
  name: bench
  listen: "{host}:{route}"
  routes: [{routes}]
}}
"""


class NatsCluster(NatsJetStream, ClusterQueue):
    """A stream on three nodes."""

    name = "NATS JetStream, 3 nodes"
    levels = (Level.FSYNC,)

    def __init__(self, directory: Path, level: Level = Level.FSYNC) -> None:
        assert level is Level.FSYNC
        program = programs.nats_server()
        self.version = program.version
        ports = [free_port() for _ in range(NODES)]
        routes = [free_port() for _ in range(NODES)]
        urls = ", ".join(f'"nats://{LOOPBACK}:{route}"' for route in routes)

        def start(number: int, folder: Path) -> Server:
            file = folder / "nats.conf"
            port, route = ports[number], routes[number]
            values = {"name": f"node{number}", "host": LOOPBACK, "port": port, "route": route}
            file.write_text(_SETTINGS.format(**values, directory=folder, routes=urls), encoding="utf-8")
            return Server(program, ["--config", str(file)], folder, port)

        self._nodes = {f"node{number}": node for number, node in enumerate(start_nodes(directory, start))}
        self._connections = PerThread(self._connect_to_leader, Connection.close)
        self._leader = "node0"
        try:
            self._declare()
        except BaseException:
            self.close()
            raise

    def _declare(self) -> None:
        """The nodes listen before they have a leader of their own, and refuse streams until then."""
        until = time.monotonic() + JOIN_SECONDS
        while True:
            connection = Connection(self._nodes[self._leader].port, timeout=5)
            try:
                connection.run(declare(connection.stream, StorageType.FILE, NODES))
                info = connection.run(connection.stream.stream_info(STREAM))
                self._leader = (info.cluster and info.cluster.leader) or self._leader
            except Exception as error:  # it may refuse in any way until the nodes have joined
                if time.monotonic() > until:
                    raise UnavailableError(f"the nodes take no stream: {error!r}") from error
                time.sleep(0.5)
            else:
                return
            finally:
                connection.close()

    def _connect_to_leader(self) -> Connection:
        return Connection(self._nodes[self._leader].port)

    def kill_leader(self) -> float:
        """Kill the node that leads the stream."""
        moment = time.monotonic()
        self._nodes.pop(self._leader).kill()
        self._leader = next(iter(self._nodes))
        return moment

    def send_once(self, body: bytes) -> None:
        """Publish, and wait a short time for the stream."""
        connection = self._connections.get()
        connection.run(connection.stream.publish(SUBJECT, body, timeout=SHORT_SECONDS))

    def reconnect(self) -> None:
        """Connect to a node that lives, unless the thread's connection is to one."""
        if not self._connections.get().client.is_connected:
            self._connections.drop()
            self._connections.get()

    def close(self) -> None:
        """Close the connections and stop the nodes."""
        self._connections.close()
        for node in self._nodes.values():
            node.stop()
