# SPDX-License-Identifier: Apache-2.0
"""A standby takes a namespace over when its server is gone, and clients with the SDK go on by their own retries."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from oxbus import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from stored_server import LIVENESS_SECONDS, LOOPBACK, StoredServer, Switch, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stored_server import StoredPlace

SENT = """
import sys, json, time
from itertools import count
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

# The numbers of acknowledged messages, one per line.
with ServiceBusClient.from_connection_string(
    sys.argv[1], retry_total=100, retry_backoff_factor=0.1, retry_backoff_max=0.5
) as client:
    with client.get_queue_sender("q") as sender:
        for number in count():
            sender.send_messages(ServiceBusMessage(str(number), message_id=str(number)))
            print(number, flush=True)
"""


class Load:
    """Sends messages with the SDK, in its own process, until it is stopped."""

    def __init__(self, connection_string: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SENT, connection_string],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.acknowledged: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.acknowledged.append(int(line))

    def wait_for_more(self) -> None:
        """Wait until more messages are acknowledged."""
        wanted = len(self.acknowledged) + 20
        wait_until(lambda: len(self.acknowledged) >= wanted, "a further acknowledgement")

    def stop(self) -> None:
        """Stop sending."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def served(place: StoredPlace) -> Iterator[tuple[StoredServer, StoredServer, Switch]]:
    """A server with the queue `q`, a standby, and the address of whichever serves."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    with StoredServer(place, standby=False) as owner:
        owner.wait_until_serving()
        with StoredServer(place, standby=True) as standby:
            switch = Switch([owner.port, standby.port])
            yield owner, standby, switch
            switch.close()


def check(place: StoredPlace, acknowledged: list[int]) -> None:
    """Every acknowledged message is there, once."""
    with place.open(standby=True) as namespace, ServiceBusClient(namespace) as client:
        found: list[int] = []
        with client.get_queue_receiver("q") as receiver:
            while batch := receiver.receive_messages(500, max_wait_time=0):
                found += [int(str(message)) for message in batch]
                for message in batch:
                    receiver.complete_message(message)
    lost = {*acknowledged} - {*found}
    assert not lost, f"{len(lost)} acknowledged messages are lost"
    # A send whose answer was lost is sent again: at least once, as in Service Bus without duplicate detection.
    assert {*found} <= {*range(max(acknowledged) + 2)}


@pytest.mark.parametrize("way", ["kill", "stop", "terminate"])
def test_a_standby_takes_over(place: StoredPlace, served: tuple[StoredServer, StoredServer, Switch], way: str) -> None:
    """After a kill, a pause and a termination, clients go on, and nothing that was acknowledged is lost."""
    owner, standby, switch = served
    load = Load(switch.connection_string)
    load.wait_for_more()
    sign = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}[way]
    owner.process.send_signal(sign)
    standby.wait_until_serving()
    if way == "stop":
        # Connections to the paused server would wait for ever.
        switch.lead_to([standby.port])
    load.wait_for_more()
    if way == "stop":
        owner.process.send_signal(signal.SIGCONT)
        load.wait_for_more()
    load.stop()
    owner.kill()
    standby.process.send_signal(signal.SIGTERM)
    standby.process.wait(LIVENESS_SECONDS)
    check(place, load.acknowledged)


def test_a_server_that_was_taken_over_does_nothing_and_says_why(
    served: tuple[StoredServer, StoredServer, Switch],
) -> None:
    """A paused server that goes on acknowledges nothing, hands nothing out, and names the cause."""
    owner, standby, _ = served
    key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
    connection_string = f"Endpoint=sb://127.0.0.1:{owner.port}/;{key}"
    with SdkClient.from_connection_string(connection_string, retry_total=0) as client:
        sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
        sender.send_messages([SdkMessage(str(number)) for number in range(10)])
        assert receiver.receive_messages(1, max_wait_time=10)
        owner.process.send_signal(signal.SIGSTOP)
        standby.wait_until_serving()
        owner.process.send_signal(signal.SIGCONT)
        with pytest.raises(Exception, match="took the namespace over"):
            sender.send_messages(SdkMessage("lost"))
        assert receiver.receive_messages(1, max_wait_time=2) == []


def is_ready(server: StoredServer) -> bool:
    """Whether a server asks for clients."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{server.port}/$health/ready", timeout=LIVENESS_SECONDS):
            return True
    except OSError:  # it refuses the connection, or says that it is not ready
        return False


def test_a_server_that_was_taken_over_is_not_ready_and_ends(
    place: StoredPlace, served: tuple[StoredServer, StoredServer, Switch]
) -> None:
    """A load balancer sends no clients to it, even if none called it since, and a supervisor starts it again."""
    owner, _, _ = served
    assert is_ready(owner)
    with StoredServer(place, "--take-over", standby=False) as taker:
        taker.wait_until_serving()
        assert is_ready(taker)
        wait_until(lambda: not is_ready(owner), "an old owner that is not ready")
        assert owner.process.wait(LIVENESS_SECONDS) == 1
        assert "another process took the namespace over; start this one again with --standby" in owner.errors


def test_another_process_is_refused(place: StoredPlace, served: tuple[StoredServer, StoredServer, Switch]) -> None:
    """A command that does not wait ends with an error that names the owner."""
    owner, _, _ = served
    words = ["stats", "--data", place.url, *_options(place), "--json"]
    done = subprocess.run([sys.executable, "-m", "oxbus.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"in use by the process with pid {owner.process.pid}" in done.stderr


def test_a_place_without_a_namespace_is_named(place: StoredPlace) -> None:
    """Only `oxbus init` creates a namespace."""
    run = [sys.executable, "-m", "oxbus.cli"]
    done = subprocess.run(
        [*run, "stats", "--data", place.url, *_options(place)], capture_output=True, text=True, check=False
    )
    assert "oxbus init" in done.stderr
    made = subprocess.run(
        [*run, "init", place.url, *_options(place), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(made.stdout)["created"] is True


def _options(place: StoredPlace) -> list[str]:
    return [word for name, value in place.options.items() for word in ("--storage-option", f"{name}={value}")]
