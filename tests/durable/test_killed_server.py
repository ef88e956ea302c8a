# SPDX-License-Identifier: Apache-2.0
"""A server that is killed: what it had answered holds (R-33)."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from threading import Timer
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus.exceptions import ServiceBusError as SdkError
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SETTLED = 20
WAIT_SECONDS = 30


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_what_a_killed_server_answered_holds(tmp_path: Path, partitioned: bool) -> None:
    """Each send that returned in the SDK is there, no completion that returned is undone, and nothing is doubled."""
    directory = tmp_path / "bus"
    with Namespace(directory) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=partitioned)
    command = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(directory), "--amqp-port", "0", "--json"]
    sent: list[str] = []
    completed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            connection_string = json.loads(server.stdout.readline())["connection_string"]
            with SdkClient.from_connection_string(connection_string, retry_total=0) as client:
                sender = client.get_queue_sender("q")

                def send(numbers: Iterable[int]) -> None:
                    for number in numbers:
                        sender.send_messages(SdkMessage(str(number), message_id=str(number)))
                        sent.append(str(number))

                send(range(2 * SETTLED))
                with client.get_queue_receiver("q") as receiver:
                    while len(completed) < SETTLED:
                        (message,) = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
                        receiver.complete_message(message)
                        completed.append(str(message.message_id))
                Timer(0.05, server.kill).start()
                with pytest.raises(SdkError):
                    send(count(2 * SETTLED))
        finally:
            server.kill()
    with Namespace(directory) as namespace, ServiceBusClient(namespace) as oxbus_client:
        receiver_here = oxbus_client.get_queue_receiver("q")
        there = [str(message.message_id) for message in receiver_here.receive_messages(len(sent) + 1, max_wait_time=0)]
    expected = {*sent} - {*completed}
    # The message that was under way may be there, too.
    assert len(there) == len({*there})
    assert {*there} - {str(len(sent))} == expected
