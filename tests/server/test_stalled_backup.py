# SPDX-License-Identifier: Apache-2.0
"""A client that stops reading its backup holds no files and no place among the requests for long."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.backups import backup
from oxbus.exceptions import ServiceBusServerBusyError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from signatures import token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus.backups import Backup
    from oxbus.server import Server

COUNT = 60
BODY = b"x" * 200_000
PATIENCE_SECONDS = 60
"""Time that a test waits for the server; never a measure of speed."""


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace whose files do not fit the buffers of a connection."""
    with Namespace(tmp_path / "bus", partitions=1) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
            for _ in range(COUNT):
                sender.send_messages(ServiceBusMessage(BODY))
        yield namespace


@contextlib.contextmanager
def stalled(server: Server) -> Iterator[socket.socket]:
    """The connection of a client that asked for a backup and read only the beginning."""
    body = json.dumps({"known": []}).encode()
    head = (
        "POST /$bulk/v1/backup HTTP/1.1",
        f"Host: {server.host}",
        f"Authorization: {token(f'sb://{server.host}')}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    with socket.socket() as connection:
        # A small buffer, set before the connection exists.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect((server.host, server.port))
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        assert connection.recv(12) == b"HTTP/1.1 200"
        yield connection


def backup_when_free(server: Server, target: Path) -> Backup:
    """Back up as soon as the server has a place for the request."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return backup(server.connection_string, target)
        except ServiceBusServerBusyError:
            assert time.monotonic() < end
            time.sleep(0.02)


def replaced_files(directory: Path) -> list[str]:
    """The files of a directory that this process has open and that have no name any more."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith(str(directory)) and target.endswith("(deleted)"):
                found.append(target)
    return found


def test_backup_has_its_place_until_it_ends(namespace: Namespace, tmp_path: Path) -> None:
    """The place is free once the client is gone."""
    with serve(namespace, bulk_limits={"requests": 1}) as server:
        with stalled(server), pytest.raises(ServiceBusServerBusyError):
            backup(server.connection_string, tmp_path / "backups")
        backup_when_free(server, tmp_path / "backups")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not show the names of open files")
def test_client_that_stops_reading_holds_no_files(namespace: Namespace, tmp_path: Path) -> None:
    """Its answer ends too early, so it takes nothing for a whole backup."""
    limits = {"requests": 1, "backup_pause_ms": 200}
    with serve(namespace, bulk_limits=limits) as server, stalled(server) as connection:
        namespace.checkpoint()
        with ServiceBusClient(namespace) as client:
            receiver = client.get_queue_receiver("q", receive_mode="receiveanddelete")
            left = COUNT
            while left:
                left -= len(receiver.receive_messages(left, max_wait_time=5))
        namespace.checkpoint()
        backup_when_free(server, tmp_path / "backups")
        end = time.monotonic() + PATIENCE_SECONDS
        while replaced := replaced_files(tmp_path / "bus"):
            assert time.monotonic() < end, replaced
            time.sleep(0.02)
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                received += piece
        assert not received.endswith(b"\r\n0\r\n\r\n")
        assert len(received) < COUNT * len(BODY)
