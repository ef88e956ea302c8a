# SPDX-License-Identifier: Apache-2.0
"""`oxbus console DIR`: the console of a directory that nobody has open, which looks and changes nothing.

Source: docs/guide/console.md, "A directory that nobody has open".
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from console_http import Console
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import NamespaceInUseError
from oxbus.management import ServiceBusAdministrationClient
from reserving import Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLED = """
import os, sys
from oxbus import Namespace, ServiceBusClient
bus = Namespace(sys.argv[1])
receiver = ServiceBusClient(bus).get_queue_receiver("orders")
print(len(receiver.receive_messages(3, max_wait_time=5)), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory whose last process was killed while it held three messages."""
    path = tmp_path / "bus"
    with Namespace(path, partitions=4) as bus, ServiceBusClient(bus) as client:
        admin = ServiceBusAdministrationClient(bus)
        admin.create_queue("orders", enable_partitioning=True)
        admin.create_queue("sessions", enable_partitioning=True, requires_session=True)
        with client.get_queue_sender("orders") as sender:
            for number in range(9):
                sender.send_messages(ServiceBusMessage(f"body {number}"))
        with client.get_queue_sender("sessions") as sender:
            sender.send_messages(ServiceBusMessage("x", session_id="s"))
        with client.get_queue_receiver("orders") as receiver:
            (message,) = receiver.receive_messages(1, max_wait_time=5)
            receiver.dead_letter_message(message, reason="bad")
        Consumer(bus, "orders", "query").reserve(1, 2)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=False)
    assert killed.stdout == "3\n"
    return path


def digests(path: Path) -> dict[str, str]:
    """The content of each file. The lock files of owners contain who had them last."""
    files = (it for it in path.rglob("*") if it.is_file() and it.name != "owner")
    return {str(it.relative_to(path)): hashlib.sha256(it.read_bytes()).hexdigest() for it in sorted(files)}


@contextmanager
def console_of(path: Path) -> Iterator[Console]:
    """The console of a directory, by the command; somebody has signed in."""
    command = [sys.executable, "-m", "oxbus.cli", "console", str(path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(json.loads(process.stdout.readline())["address"])
        server: Any = SimpleNamespace(host=address.hostname, port=address.port)
        console = Console(server)
        assert console.sign_in().status == HTTPStatus.OK
        yield console
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_looking_at_a_directory_changes_nothing(place: Path) -> None:
    """No byte of a file, no delivery count, no reservation: the next open finds all as it was."""
    before = digests(place)
    with console_of(place) as console:
        rows = {row["name"]: row for row in console.get("overview")["page"]["rows"]}
        assert (rows["orders"]["active"], rows["orders"]["dead"], rows["sessions"]["active"]) == (8, 1, 1)
        shown = console.get("messages", path="orders")["messages"]
        assert max(it["preview"] for it in shown) == "body 8"
        assert console.get("dead-letters", path="orders")["groups"][0]["reason"] == "bad"
        assert [it["id"] for it in console.get("sessions", path="sessions")["page"]["rows"]] == ["s"]
        (reservation,) = console.get("locks")["reservations"]
        assert reservation["consumer"] == "query"
        assert len(console.get("partitions")["partitions"]) == 4
    assert digests(place) == before
    with Namespace(place) as bus, ServiceBusClient(bus) as client:
        found = client.get_queue_receiver("orders").peek_messages(20)
        counts = sorted(int(it.delivery_count or 0) for it in found)
        assert counts == [0, 0, 0, 0, 0, 1, 1, 1], "only the process that was killed is charged"


def test_changes_are_refused_and_other_clients_too(place: Path) -> None:
    """With what to do instead."""
    with console_of(place) as console:
        state = console.get("state")
        assert state["is_read_only"]
        changes: dict[str, dict[str, Any]] = {
            "send": {"path": "orders", "body": ""},
            "purge": {"path": "orders/$deadletterqueue", "confirmation": "orders"},
            "resubmit": {"path": "orders"},
            "settings": {"path": "orders", "name": "max_delivery_count", "value": 1},
            "heal": {"partition": 0},
        }
        for change, body in changes.items():
            answer = console.try_post(change, **body)
            assert answer.status == HTTPStatus.FORBIDDEN
            assert b"oxbus serve" in answer.body
        for path in ("/orders", "/metrics", "/$bulk/v1/describe", "/orders/messages/head"):
            assert console.ask("POST" if path.endswith("head") else "GET", path).status == HTTPStatus.FORBIDDEN


def test_the_directory_is_for_one_process(place: Path) -> None:
    """A directory that a broker has open is looked at by its own console."""
    with Namespace(place):
        done = subprocess.run(
            [sys.executable, "-m", "oxbus.cli", "console", str(place)], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "in use by the process" in done.stderr
    with console_of(place), pytest.raises(NamespaceInUseError):
        Namespace(place)


def test_what_is_no_namespace_is_told(tmp_path: Path) -> None:
    """Nothing is created there."""
    done = subprocess.run(
        [sys.executable, "-m", "oxbus.cli", "console", str(tmp_path / "x")], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "there is no namespace" in done.stderr
    assert list(tmp_path.iterdir()) == []
