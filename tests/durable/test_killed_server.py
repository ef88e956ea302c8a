# SPDX-License-Identifier: Apache-2.0
"""Answers of a server that is then killed hold (R-33)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

# In its own process, since the SDK leaves the socket of a dead server open. It prints what returned.
CLIENT = """
import sys
from itertools import count
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

with ServiceBusClient.from_connection_string(sys.argv[1], retry_total=0) as client:
    sender = client.get_queue_sender("q")

    def send(numbers):
        for number in numbers:
            sender.send_messages(ServiceBusMessage("x", message_id=str(number)))
            print("sent", number, flush=True)

    send(range(40))
    with client.get_queue_receiver("q") as receiver:
        for _ in range(20):
            (message,) = receiver.receive_messages(1, max_wait_time=30)
            receiver.complete_message(message)
            print("completed", message.message_id, flush=True)
    try:
        send(count(40))
    except ServiceBusError:
        print("refused", 0, flush=True)
"""
SENT_BEFORE_THE_KILL = 60


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_answers_of_a_killed_server_hold(tmp_path: Path, partitioned: bool) -> None:
    """Each acknowledged message of the SDK exists, no acknowledged completion is undone, and nothing is duplicated."""
    directory = tmp_path / "bus"
    with Namespace(directory) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=partitioned)
    returned: dict[str, list[str]] = {"sent": [], "completed": [], "refused": []}
    command = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(directory), "--amqp-port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["connection_string"]
            with subprocess.Popen([sys.executable, "-c", CLIENT, address], stdout=subprocess.PIPE, text=True) as client:
                assert client.stdout is not None
                for line in client.stdout:
                    what, number = line.split()
                    returned[what].append(number)
                    if len(returned["sent"]) == SENT_BEFORE_THE_KILL:
                        server.kill()
                    if returned["refused"]:
                        client.kill()
        finally:
            server.kill()
    assert (len(returned["completed"]), len(returned["refused"])) == (20, 1)
    with Namespace(directory) as namespace, ServiceBusClient(namespace) as oxbus_client:
        receiver = oxbus_client.get_queue_receiver("q")
        received = [str(it.message_id) for it in receiver.receive_messages(len(returned["sent"]) + 1, max_wait_time=0)]
    assert len(received) == len({*received})
    # The message in flight may have been stored, too.
    under_way = str(len(returned["sent"]))
    assert {*received} - {under_way} == {*returned["sent"]} - {*returned["completed"]}
