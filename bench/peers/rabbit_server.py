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


class PortMapper:
    """Erlang's port mapper, which the nodes of a cluster share."""

    def __init__(self) -> None:
        self.port = free_port()
        words = ["epmd", "-port", str(self.port), "-address", LOOPBACK]
        environment = programs.rabbitmq_server().environment
        self._process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


class RabbitServer:
    """A running node."""

    def __init__(
        self, directory: Path, mapper: PortMapper | None = None, name: str | None = None, settings: str = ""
    ) -> None:
        """Start a node, with a mapper of its own if it is given none."""
        program = programs.rabbitmq_server()
        self.version, self.script = program.version, program.file
        self.port = free_port()
        # A durable queue finds its node again only under the name it had.
        name_file = directory / "node"
        if name_file.exists():
            name = name_file.read_text(encoding="ascii")
        self.name = name or f"bench{self.port}@localhost"
        name_file.write_text(self.name, encoding="ascii")
        if settings:
            (directory / "rabbitmq.conf").write_text(settings, encoding="ascii")
        self._own_mapper = None if mapper else PortMapper()
        mapper = mapper or self._own_mapper
        assert mapper is not None
        self.environment = {
            **program.environment,
            "HOME": str(directory),
            "ERL_EPMD_PORT": str(mapper.port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the server instead of waiting for it
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        }
        try:
            moved = programs.Program(program.file, self.environment, program.version)
            self._server = Server(moved, [], directory, self.port, START_SECONDS)
        except BaseException:
            self._stop_mapper()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._server.pid

    def kill(self) -> None:
        """End it as a machine ends that loses its power, but for what the system has not written yet."""
        self._server.kill()

    def stop(self) -> None:
        """Stop the server and its port mapper."""
        self._server.stop()
        self._stop_mapper()

    def _stop_mapper(self) -> None:
        if self._own_mapper is not None:
            self._own_mapper.stop()


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
