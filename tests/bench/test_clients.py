# SPDX-License-Identifier: Apache-2.0
"""The compiled clients of bench/, against the server that they measure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import go_client
import pytest
import sdk_programs
from amqp import compiled
from amqp.brokers import Oxbus
from amqp_relay import CLOSE, DETACH, DISPOSITION, TO_BROKER, TO_CLIENT, Relay
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from network.servers import QUEUES, Echo, OxbusQueue
from peers.contract import Level

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from network.servers import NetworkQueue

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oxbus]:
    """A server in a separate process, with one queue in memory."""
    sdk_programs.need("go")
    broker = Oxbus(tmp_path, Level.MEMORY)
    yield broker
    broker.close()


@pytest.mark.parametrize("told", ["true", "false"])
def test_client_ends_its_links_before_its_connections(broker: Oxbus, told: str) -> None:
    """A run ended with "message 19940 came twice": the previous client disconnected before its settlements arrived.

    The broker confirms the end of a link after it has read everything before it.
    """
    relay = Relay(broker.endpoint.port)
    compiled.run(replace(broker.endpoint, port=relay.port), "through", count=1_000, told=told, links=2)
    receiving = [one for one in relay.close() if (TO_BROKER, DISPOSITION) in one]
    assert len(receiving) == 2
    for one in receiving:
        last = max(position for position, what in enumerate(one) if what == (TO_BROKER, DISPOSITION))
        ends = [(TO_BROKER, DETACH), (TO_CLIENT, DETACH), (TO_BROKER, CLOSE)]
        assert [what for what in one[last:] if what in ends] == ends
    assert broker.remaining() == 0


def test_one_message_at_a_time_is_returned(broker: Oxbus) -> None:
    """A ping settles its message before the next."""
    found = compiled.run(broker.endpoint, "ping", count=20)
    assert found["latency_us_p50"] > 0
    assert broker.remaining() == 0


@pytest.mark.parametrize("kind", [kind for kind in QUEUES if kind is OxbusQueue or issubclass(kind, Echo)])
@pytest.mark.parametrize("batch", [1, 100])
def test_cycle_receives_the_messages_it_sent(kind: type[NetworkQueue], batch: int, tmp_path: Path) -> None:
    """The client of the work queues completes every message, singly and in lists of a hundred."""
    sdk_programs.need("go")
    queue = kind(tmp_path)
    try:
        found = go_client.run("network/client", {**queue.options, "batch": batch, "count": 1_000})
        assert found["throughput_msg_per_s"] > 0
        assert queue.remaining() == 0
    finally:
        queue.close()


def test_foreign_message_ends_the_run(broker: Oxbus) -> None:
    """A client that receives a message that it did not send reports an error and no figure."""
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(broker.endpoint.address) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"stray"))
    with pytest.raises(RuntimeError, match="is not as it was sent"):
        go_client.run("network/client", {"mode": "oxbus", **compiled.options_for(broker.endpoint), "count": 10})
