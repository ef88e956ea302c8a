# SPDX-License-Identifier: Apache-2.0
"""A namespace in a store behaves as one in a directory does, and belongs to one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, NamespaceInUseError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace

BODIES = [f"body {index} ".encode() * 200 for index in range(300)]


def send(namespace: Namespace, bodies: list[bytes]) -> None:
    """Send messages to the queue `q`."""
    with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(body, message_id=str(n)) for n, body in enumerate(bodies)])


def receive_all(namespace: Namespace) -> list[bytes]:
    """Receive and complete everything in the queue `q`."""
    found = []
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("q") as receiver:
        while batch := receiver.receive_messages(100, max_wait_time=0):
            for message in batch:
                found.append(bytes(message))
                receiver.complete_message(message)
    return found


def test_messages_are_there_after_a_reopen(place: StoredPlace) -> None:
    """What was sent is received after a close, and what was completed does not return."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        send(namespace, BODIES)
    with place.open() as namespace:
        assert namespace.partitions == 4
        assert sorted(receive_all(namespace)) == sorted(BODIES)
    with place.open() as namespace:
        assert receive_all(namespace) == []


def test_bodies_beyond_the_memory_limit_are_read_from_the_store(place: StoredPlace) -> None:
    """With little memory, bodies stay in the store, in their place, and are read when they are received."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        send(namespace, BODIES)
    with place.open(memory_limit_bytes=400_000) as namespace:
        assert sorted(receive_all(namespace)) == sorted(BODIES)


def test_a_process_that_was_killed_leaves_the_namespace_to_the_next(place: StoredPlace) -> None:
    """Everything that a killed process acknowledged is there, and nobody has to wait for its lease here."""
    program = f"""
import os, signal
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
namespace = Namespace({place.url!r}, storage_options={place.options!r}, partitions=4)
ServiceBusAdministrationClient(namespace).create_queue("q")
with ServiceBusClient(namespace).get_queue_sender("q") as sender:
    for number in range(50):
        sender.send_messages(ServiceBusMessage(str(number)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ, **place.environment})
    assert killed.returncode == -signal.SIGKILL
    with place.open() as namespace:
        assert sorted(receive_all(namespace), key=int) == [str(number).encode() for number in range(50)]


def test_an_open_namespace_is_in_use(place: StoredPlace) -> None:
    """Another open fails and names the owner; the namespace goes on."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        with pytest.raises(NamespaceInUseError, match=f"pid {os.getpid()}"):
            place.open()
        send(namespace, [b"x"])
        assert receive_all(namespace) == [b"x"]


def test_a_connection_string_opens_the_namespace(place: StoredPlace) -> None:
    """Clients with the same connection string share the namespace, which closes with the last of them."""
    if place.options:
        pytest.skip("a connection string has no options")
    with ServiceBusAdministrationClient.from_connection_string(f"Endpoint={place.url}") as admin:
        admin.create_queue("q")
        with ServiceBusClient.from_connection_string(f"Endpoint={place.url}") as client:
            client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
    with Namespace(place.url) as namespace:
        assert receive_all(namespace) == [b"x"]


def test_options_that_do_not_fit_are_refused(place: StoredPlace, tmp_path: Path) -> None:
    """Each error says what to do, and nothing is created."""
    with pytest.raises(InvalidOperationError, match="leave durability out"):
        Namespace(place.url, durability="os")
    with pytest.raises(InvalidOperationError, match="leave partitions_owned out"):
        Namespace(place.url, partitions_owned=[0])
    with pytest.raises(InvalidOperationError, match="namespace in a store"):
        Namespace(tmp_path / "bus", storage_options={"region": "x"})
    with pytest.raises(InvalidOperationError, match="namespace in a store"):
        Namespace(standby=True)
    with pytest.raises(ValueError, match="max_puts_per_second"):
        Namespace(place.url, storage_options={"max_puts_per_second": "none"})
    with pytest.raises(TypeError, match="storage_options"):
        Namespace(place.url, storage_options=["region"])  # type: ignore[arg-type]
    with pytest.raises(InvalidOperationError, match="no_such_option"):
        Namespace("s3://bucket/prefix", storage_options={"no_such_option": "SECRET"})
    assert not (tmp_path / "bus").exists()


@pytest.mark.parametrize(
    "url", ["postgresql://user:SECRET@127.0.0.1:1/database?password=SECRET", "s3://bucket/prefix?secret=SECRET"]
)
def test_errors_show_no_credential(url: str) -> None:
    """Neither the text of an error nor that of its causes has a credential."""
    options = (
        {}
        if url.startswith("postgresql")
        else {
            "endpoint": "http://127.0.0.1:1",
            "access_key_id": "SECRET",
            "secret_access_key": "SECRET",
            "region": "us-east-1",
        }
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011 (which one depends on the store)
        Namespace(url, storage_options={**options, "timeout": "1s"})
    cause: BaseException | None = caught.value
    while cause is not None:
        assert "SECRET" not in f"{cause!r} {cause}"
        cause = cause.__cause__ or cause.__context__


def test_a_forked_child_leaves_the_namespace_alone(place: StoredPlace) -> None:
    """A child that exits changes nothing for its parent."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        send(namespace, [b"x"])
        assert receive_all(namespace) == [b"x"]
