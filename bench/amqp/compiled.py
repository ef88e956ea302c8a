# SPDX-License-Identifier: Apache-2.0
"""The compiled client of `client/`, run against a broker."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import go_client
from peers.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp.brokers import Endpoint

PACKAGE = "amqp/client"


def options_for(endpoint: Endpoint) -> go_client.Options:
    """Return the options with which an AMQP client reaches a broker."""
    return {
        "address": f"amqp://{LOOPBACK}:{endpoint.port}",
        "user": endpoint.user,
        "password": endpoint.password,
        "node": endpoint.address,
    }


def run(endpoint: Endpoint, mode: str, **options: object) -> dict[str, Any]:
    """The client's results in a mode."""
    return go_client.run(PACKAGE, {"mode": mode, **options_for(endpoint), **options})


@contextmanager
def idle(endpoint: Endpoint, count: int, **options: object) -> Iterator[None]:
    """Keep `count` connections open, each with a receiver that waits."""
    command = go_client.command(PACKAGE, {"mode": "idle", "count": count, **options_for(endpoint), **options})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "open":
            raise RuntimeError("the client could not open its connections")
        yield
        process.stdin.close()
