# SPDX-License-Identifier: Apache-2.0
"""A broker in a process of its own that a test kills and starts again on the same port, while Spark uses it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import oxbus
from oxbus._oxbus import BulkClient
from spark_broker import KEY

if TYPE_CHECKING:
    from pathlib import Path


class BrokerProcess:
    """`oxbus serve` on a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._port = 0
        self.connection_string = ""
        oxbus.Namespace(path).close()
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it is ready."""
        options = ("--data", str(self._path), "--amqp-port", str(self._port), "--json", "--log-level", "error")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "oxbus.cli", "serve", *options],
            env=os.environ | {"OXBUS_SAS_KEY": KEY},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        printed = json.loads(self._process.stdout.readline())
        self._port = printed["amqp_port"]
        self.connection_string = printed["connection_string"]

    def kill(self) -> None:
        """End the server as `kill -9` does."""
        self._process.kill()
        self._process.communicate()

    def client(self) -> BulkClient:
        """A client of the server."""
        return BulkClient(self.connection_string)


class Restarts:
    """Kills a broker again and again at random moments, and starts it after a random pause."""

    def __init__(self, broker: BrokerProcess, count: int, seed: int, *, up: float, away: float) -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._up, self._away = up, away
        self._over = threading.Event()
        self.left = count
        self._thread = threading.Thread(target=self._run, name="restarts")
        self._thread.start()

    def _run(self) -> None:
        while self.left and not self._over.wait(self._random.uniform(0.05, self._up)):
            self._broker.kill()
            self._over.wait(self._random.uniform(0, self._away))
            self._broker.start()
            self.left -= 1

    def end(self) -> None:
        """Restart no more; the broker is up afterwards."""
        self._over.set()
        self._thread.join()
