# SPDX-License-Identifier: Apache-2.0
"""One node of RabbitMQ as a child of the bench, with its port mapper as another.

Settings as they come, no plugins; everything it writes stays in the directory it is given.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pika

from peers import programs
from peers.contract import UnavailableError
from peers.server import LOOPBACK, Server, free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    Answer = TypeVar("Answer")

START_SECONDS = 60
CONNECT_SECONDS = 30


class RabbitServer:
    """A running node."""

    def __init__(self, directory: Path) -> None:
        program = programs.rabbitmq_server()
        self.version = program.version
        self.port = free_port()
        mapper_port, peer_port = free_port(), free_port()
        environment = {
            **program.environment,
            "HOME": str(directory),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the server instead of waiting for it
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_DIST_PORT": str(peer_port),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        }
        # A durable queue finds its node again only under the name it had.
        name_file = directory / "node"
        if name_file.exists():
            environment["RABBITMQ_NODENAME"] = name_file.read_text(encoding="ascii")
        name_file.write_text(environment["RABBITMQ_NODENAME"], encoding="ascii")
        mapper = ["epmd", "-port", str(mapper_port), "-address", LOOPBACK]
        self._mapper = subprocess.Popen(mapper, env=environment, stdin=subprocess.DEVNULL)
        try:
            moved = programs.Program(program.file, environment, program.version)
            self._server = Server(moved, [], directory, self.port, START_SECONDS)
        except BaseException:
            self._stop_mapper()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._server.pid

    def stop(self) -> None:
        """Stop the server and its port mapper."""
        self._server.stop()
        self._stop_mapper()

    def _stop_mapper(self) -> None:
        self._mapper.terminate()
        self._mapper.wait()


def until_it_answers(connect: Callable[[], Answer]) -> Answer:
    """Connect: a node listens some time before it accepts clients."""
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return connect()
        except pika.exceptions.AMQPError as error:
            if time.monotonic() > until:
                raise UnavailableError(f"RabbitMQ accepts no connection: {error!r}") from error
            time.sleep(0.1)
