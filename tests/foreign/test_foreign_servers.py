# SPDX-License-Identifier: Apache-2.0
"""The client half of the AMQP engine with servers that others wrote: RabbitMQ 4 and ActiveMQ Artemis."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from amqp.brokers import Artemis, Broker, RabbitMq
from peers.contract import Level

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("broker", [RabbitMq, Artemis], ids=lambda broker: broker.name)
def test_messages_go_there_and_back(broker: type[Broker], tmp_path: Path) -> None:
    """In order, whole, given back, settled; credit is drained, links and the connection are closed."""
    opened = broker(tmp_path, Level.MEMORY)
    try:
        endpoint = opened.endpoint
        text = f"127.0.0.1 {endpoint.port} {endpoint.user} {endpoint.password} {endpoint.address}"
        done = subprocess.run(
            ["cargo", "test", "-q", "-p", "oxbus-amqp", "--test", "foreign", "--", "--ignored", "--nocapture"],
            cwd=ROOT,
            env=os.environ | {"OXBUS_FOREIGN": text},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5_000:]
        assert "1 passed" in done.stdout
    finally:
        opened.close()
