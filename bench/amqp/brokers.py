# SPDX-License-Identifier: Apache-2.0
"""Servers that speak AMQP 1.0, each as a child of the bench with one empty queue.

At the level `fsync` an accepted message and a confirmed settlement have been synced; at `memory` nothing is kept.
Each takes the queue that its makers recommend for that, and its settings as they come.
"""

from __future__ import annotations

import json
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import oxbus
from peers import programs
from peers.contract import Level, UnavailableError
from peers.server import LOOPBACK, STOP_SECONDS, Server, free_port
from targets import OURS

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = "bench"
START_SECONDS = 60


@dataclass(frozen=True)
class Endpoint:
    """Where clients connect, and with which key; `address` is where they send and receive."""

    port: int
    user: str
    password: str
    address: str = QUEUE


class Broker(ABC):
    """A running server."""

    name: ClassVar[str]
    endpoint: Endpoint
    version: str
    pid: int

    @abstractmethod
    def __init__(self, directory: Path, level: Level) -> None:
        """Start it with one queue; raise `UnavailableError` if it cannot run here."""

    @abstractmethod
    def close(self) -> None:
        """Stop it."""


class Oxbus(Broker):
    """`oxbus serve` as it comes."""

    name = OURS
    version = oxbus.__version__
    connection_string: str

    def __init__(self, directory: Path, level: Level) -> None:
        config = directory / "config.json"
        queue = {"Name": QUEUE, "Properties": {"LockDuration": "PT1M"}}
        namespace = {"Name": "bench", "Queues": [queue], "Topics": []}
        config.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}), encoding="utf-8")
        data = str(directory / "data")
        oxbus_command = [sys.executable, "-m", "oxbus.cli"]
        if level is not Level.MEMORY:
            subprocess.run([*oxbus_command, "init", data], check=True, stdout=subprocess.DEVNULL)
        self.certificate = directory / "certificate.pem"
        where = ["--memory"] if level is Level.MEMORY else ["--data", data]
        options = ["--amqp-port", "0", "--json", "--config", str(config), "--tls-cert-out", str(self.certificate)]
        command = [*oxbus_command, "serve", *options, *where]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UnavailableError(f"`oxbus serve` ended with {self._process.wait()}")
        ready = json.loads(line)
        self.connection_string, self.pid = ready["connection_string"], self._process.pid
        self.endpoint = Endpoint(ready["amqp_port"], "RootManageSharedAccessKey", "SAS_KEY_VALUE")

    def remaining(self) -> int:
        """How many messages it has, held ones included."""
        from azure.servicebus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- a quarter of a second

        opened = ServiceBusAdministrationClient.from_connection_string(
            self.connection_string, connection_verify=str(self.certificate)
        )
        with opened as admin:
            return admin.get_queue_runtime_properties(QUEUE).total_message_count or 0

    def close(self) -> None:
        """Have it end in order."""
        self._process.terminate()
        self._process.wait(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


class RabbitMq(Broker):
    """RabbitMQ 4, one node: a quorum queue, which syncs its log before it answers; a classic queue in memory."""

    name = "RabbitMQ"

    def __init__(self, directory: Path, level: Level) -> None:
        import pika  # noqa: PLC0415 -- without it only this broker is missing
        from peers.rabbit_server import RabbitServer, until_it_answers  # noqa: PLC0415

        self._server = RabbitServer(directory)
        try:
            self.version, self.pid = self._server.version, self._server.pid
            parameters = pika.ConnectionParameters(LOOPBACK, self._server.port)
            connection = until_it_answers(lambda: pika.BlockingConnection(parameters))
            kind = "quorum" if level is Level.FSYNC else "classic"
            connection.channel().queue_declare(QUEUE, durable=level is Level.FSYNC, arguments={"x-queue-type": kind})
            connection.close()
        except BaseException:
            self._server.stop()
            raise
        self.endpoint = Endpoint(self._server.port, "guest", "guest", f"/queues/{QUEUE}")

    def close(self) -> None:
        """Stop the node."""
        self._server.stop()


class Artemis(Broker):
    """ActiveMQ Artemis: its journal, synced for each message and each settlement; without a journal in memory."""

    name = "ActiveMQ Artemis"

    def __init__(self, directory: Path, level: Level) -> None:
        program = programs.artemis()
        self.version = program.version
        port, instance = free_port(), directory / "instance"
        options = ["--nio"] if level is Level.FSYNC else ["--disable-persistence"]
        create = [
            *(str(program.file), "create", str(instance), "--silent", "--user", "bench", "--password", "bench"),
            *("--require-login", "--host", LOOPBACK, "--default-port", str(port), "--queues", QUEUE, "--no-web"),
            *("--no-amqp-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor", "--no-hornetq-acceptor", *options),
        ]
        made = subprocess.run(create, capture_output=True, text=True, check=False)
        if made.returncode:
            raise UnavailableError(f"`artemis create` failed: {made.stdout[-200:]} {made.stderr[-200:]}")
        moved = programs.Program(instance / "bin" / "artemis", program.environment, program.version)
        self._server = Server(moved, ["run"], directory, port, START_SECONDS)
        self.pid = self._server.pid
        self.endpoint = Endpoint(port, "bench", "bench")

    def close(self) -> None:
        """Stop it."""
        self._server.stop()


BROKERS: tuple[type[Broker], ...] = (Oxbus, RabbitMq, Artemis)
