# SPDX-License-Identifier: Apache-2.0
"""Health checks of a server, and the drain before its end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from oxbus.server import serve
from oxbus.testing import heal, inject_fault
from plain_http import Http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus.server import Server

LIVENESS_SECONDS = 60


def status(ask: Http, path: str) -> tuple[int, str]:
    """The answer of a health check."""
    answer = ask("GET", path)
    return answer.status, json.loads(answer.body)["status"]


def test_a_healthy_server(ask: Http) -> None:
    """No check needs a token."""
    ask.token = None
    assert status(ask, "/health") == status(ask, "/$health") == (200, "healthy")
    assert status(ask, "/$health/live") == (200, "live")
    assert status(ask, "/$health/ready") == (200, "ready")


def test_a_partition_out_of_service(namespace: Namespace, ask: Http) -> None:
    """The other partitions work, so clients may come."""
    ask.token = None
    inject_fault(namespace, 3, "unavailable")
    assert status(ask, "/health") == status(ask, "/$health") == (200, "limited")
    assert status(ask, "/$health/ready") == (200, "ready")


def test_all_partitions_out_of_service(open_namespace: Callable[..., Namespace]) -> None:
    """No client should come, but a restart would not help."""
    namespace = open_namespace(partitions=2)
    with serve(namespace) as server:
        ask = Http(server)
        for partition in range(2):
            inject_fault(namespace, partition, "unavailable")
        assert status(ask, "/$health/ready") == (503, "out_of_service")
        assert status(ask, "/health") == (200, "limited")
        assert status(ask, "/$health/live") == (200, "live")
        heal(namespace, 0)
        assert status(ask, "/$health/ready") == (200, "ready")
        ask.connection.close()


def test_a_closed_namespace(namespace: Namespace, ask: Http) -> None:
    """503: the server cannot answer requests. It is alive all the same."""
    namespace.close()
    assert status(ask, "/health") == status(ask, "/$health/ready") == (503, "closed")
    assert status(ask, "/$health/live") == (200, "live")
    assert ask("POST", "/orders/messages", "x").status == 503


@pytest.fixture
def remote(server: Server) -> Iterator[ServiceBusClient]:
    """A client that is connected to the server, and does not try again."""
    with ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as client:
        yield client


def until_draining(ask: Http) -> None:
    """Wait until the server drains."""
    deadline = time.monotonic() + LIVENESS_SECONDS
    while status(ask, "/$health/ready") != (503, "draining"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_drain_lets_clients_settle(
    server: Server,
    ask: Http,
    client: ServiceBusClient,
    remote: ServiceBusClient,
    queue_name: str,
    in_background: Callable[..., Any],
) -> None:
    """The server refuses links, delivers nothing, takes the settlement, and then ends without waiting further."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with remote.get_queue_receiver(queue_name, max_wait_time=LIVENESS_SECONDS) as receiver:
        (message,) = receiver.receive_messages()
        closing = in_background(server.close, drain_timeout=LIVENESS_SECONDS)
        until_draining(ask)
        assert status(ask, "/health") == (503, "draining")
        assert status(ask, "/$health/live") == (200, "live")
        with pytest.raises(ServiceBusError, match="shutting down"):
            remote.get_queue_sender(queue_name).send_messages(ServiceBusMessage("y"))
        with client.get_queue_sender(queue_name) as sender:
            sender.send_messages(ServiceBusMessage("z"))
        receiver.complete_message(message)
        ask.connection.close()
        closing.result()
    assert server.closed
    with client.get_queue_receiver(queue_name, max_wait_time=0) as receiver:
        left = receiver.receive_messages(10)
        assert [(str(message), message.delivery_count) for message in left] == [("z", 0)]


def test_a_drain_ends_at_its_limit(
    server: Server, client: ServiceBusClient, remote: ServiceBusClient, queue_name: str
) -> None:
    """A client that settles nothing keeps its lock, and is disconnected."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    receiver = remote.get_queue_receiver(queue_name, max_wait_time=LIVENESS_SECONDS)
    (message,) = receiver.receive_messages()
    server.close(drain_timeout=0.1)
    with pytest.raises(ServiceBusError):
        receiver.complete_message(message)
    with client.get_queue_receiver(queue_name, max_wait_time=0) as other:
        assert other.receive_messages() == []


@pytest.mark.parametrize("limit", [-1, float("nan")])
def test_an_invalid_limit_of_a_drain(server: Server, limit: float) -> None:
    """The server stays open."""
    with pytest.raises(ValueError, match="drain_timeout"):
        server.close(drain_timeout=limit)
    assert not server.closed
