# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ as three nodes that found each other by a list of names, with a quorum queue of three members.

The client declares the queue, so its node leads it: that is where it connects to, and the node that is killed.
Client settings are those of `rabbit_mq.py`.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from peers.cluster import NODES, ClusterQueue, start_nodes
from peers.contract import Level, PerThread, UnavailableError
from peers.rabbit_mq import PERSISTENT, Connection, RabbitMq
from peers.rabbit_server import PortMapper, RabbitServer, until_it_answers

if TYPE_CHECKING:
    from pathlib import Path

JOIN_SECONDS = 60
COOKIE = "BENCH"
_BACKEND = "cluster_formation.peer_discovery_backend = classic_config\n"


class RabbitCluster(RabbitMq, ClusterQueue):
    """A quorum queue on three nodes."""

    name = "RabbitMQ, 3 nodes"
    levels = (Level.FSYNC,)

    def __init__(self, directory: Path, level: Level = Level.FSYNC) -> None:
        assert level is Level.FSYNC
        self._mapper = PortMapper()
        names = [f"bench{number + 1}at{self._mapper.port}@localhost" for number in range(NODES)]
        peers = "".join(f"cluster_formation.classic_config.nodes.{at} = {one}\n" for at, one in enumerate(names, 1))

        def start(number: int, folder: Path) -> RabbitServer:
            cookie = folder / ".erlang.cookie"
            cookie.write_text(COOKIE, encoding="ascii")
            cookie.chmod(0o400)
            return RabbitServer(folder, self._mapper, names[number], _BACKEND + peers)

        try:
            self._nodes = start_nodes(directory, start)
        except BaseException:
            self._mapper.stop()
            raise
        self._server = self._nodes[0]
        self._living = list(self._nodes)
        self.version = self._server.version
        self._connections = PerThread(self._connect, Connection.close)
        try:
            self._wait_for_all()
            quorum = {"x-queue-type": "quorum", "x-quorum-initial-group-size": NODES}
            self._connections.get().declare(quorum, durable=True)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        port = self._living[0].port
        return until_it_answers(lambda: Connection(port, PERSISTENT))

    def _wait_for_all(self) -> None:
        """The queue gets a member on each node only if all are there when it is declared."""
        until = time.monotonic() + JOIN_SECONDS
        while (count := self._ask("length(rabbit_nodes:list_running())")) != str(NODES):
            if time.monotonic() > until:
                raise UnavailableError(f"the nodes did not join: {count} of {NODES} are there")
            time.sleep(0.5)

    def _ask(self, question: str) -> str:
        """What Erlang on the first node answers. The packaged `rabbitmqctl` does not run where it was not installed."""
        server = self._server
        ask = f'{{ok, Asked, _}} = erl_scan:string("{question}."), {{ok, Parsed}} = erl_parse:parse_exprs(Asked), '
        ask += f"{{value, Found, _}} = rpc:call('{server.name}', erl_eval, exprs, [Parsed, []]), "
        words = ["-sname", f"asks{time.monotonic_ns()}@localhost", "-setcookie", COOKIE, "-noinput", "-hidden"]
        done = subprocess.run(
            ["erl", *words, "-eval", f'{ask}io:format("~p", [Found]), halt().'],
            env=server.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=JOIN_SECONDS,
        )
        return done.stdout.strip()

    def kill_leader(self) -> float:
        """Kill the node of the client."""
        moment = time.monotonic()
        self._living.pop(0).kill()
        return moment

    def send_once(self, body: bytes) -> None:
        """Publish, and wait for the confirm, or for the end of the connection."""
        self._connections.get().publish([body])

    def reconnect(self) -> None:
        """Connect to the next node."""
        self._connections.drop()
        self._connections.get()

    def close(self) -> None:
        """Close the connections, stop the nodes."""
        self._connections.close()
        for node in self._living:
            node.stop()
        self._mapper.stop()
