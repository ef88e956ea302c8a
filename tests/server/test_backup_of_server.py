# SPDX-License-Identifier: Apache-2.0
"""`oxbus backup` of a running server, and `oxbus restore`, as commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.backups import backup, restore
from oxbus.cli import main
from oxbus.exceptions import ServiceBusAuthorizationError, ServiceBusConnectionError
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from oxbus.server import Server

COUNT = 3000
BODY = b"x" * 1000


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace in a directory with a queue."""
    with Namespace(tmp_path / "bus", partitions=4) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        yield namespace


@pytest.fixture
def server(namespace: Namespace) -> Iterator[Server]:
    """Its server, without TLS."""
    with serve(namespace) as server:
        yield server


def send(namespace: Namespace, first: int, count: int = COUNT) -> None:
    """Send messages whose ids are numbers."""
    with ServiceBusClient(namespace) as client, client.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(BODY, message_id=str(first + number)) for number in range(count)])


def ids(path: Path) -> list[int]:
    """The ids of the messages in a directory."""
    found: list[int] = []
    with (
        Namespace(path) as namespace,
        ServiceBusClient(namespace) as client,
        client.get_queue_receiver("q") as receiver,
    ):
        while messages := receiver.peek_messages(max_message_count=250):
            found += [int(message.message_id or "") for message in messages]
    return sorted(found)


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a command, and return the JSON that it prints."""
    assert main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_commands_back_up_a_running_server(
    namespace: Namespace, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second backup copies only what is new; both restore."""
    send(namespace, 0)
    first = command(capsys, "backup", server.connection_string, tmp_path / "backups")
    send(namespace, COUNT, 10)
    second = command(capsys, "backup", server.connection_string, tmp_path / "backups")
    assert first["copied_bytes"] == first["bytes"] > COUNT * len(BODY)
    assert second["copied_bytes"] < first["bytes"]
    command(capsys, "restore", first["directory"], tmp_path / "first")
    command(capsys, "restore", tmp_path / "backups", tmp_path / "second")
    assert ids(tmp_path / "first") == list(range(COUNT))
    assert ids(tmp_path / "second") == list(range(COUNT + 10))
    listed = json.loads((tmp_path / "backups" / first["directory"] / "backup.json").read_text())
    assert server.connection_string.partition(";")[0].endswith(listed["source"].partition("://")[2])
    assert "SharedAccessKey" not in json.dumps(listed)


def test_local_and_remote_backups_share_files(namespace: Namespace, server: Server, tmp_path: Path) -> None:
    """Both have the same files."""
    send(namespace, 0)
    backup(namespace, tmp_path / "backups")
    again = backup(server.connection_string, tmp_path / "backups")
    assert again.copied_bytes < again.bytes / 10


def test_key_needs_the_right_to_manage(namespace: Namespace, tmp_path: Path) -> None:
    """A key that may only listen gets no files."""
    rule = AuthorizationRule(key_name="listener", primary_key="a" * 44, rights=["Listen"])
    with serve(namespace, rules=[rule]) as server:
        endpoint = server.connection_string.partition(";")[0]
        text = f"{endpoint};SharedAccessKeyName=listener;SharedAccessKey={'a' * 44};UseDevelopmentEmulator=true"
        with pytest.raises(ServiceBusAuthorizationError):
            backup(text, tmp_path / "backups")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["owner"]


def test_server_killed_during_a_backup(tmp_path: Path) -> None:
    """The client gets an error, and nothing looks complete."""
    with Namespace(tmp_path / "bus", partitions=4) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        for number in range(10):
            send(namespace, number * COUNT)
    words = [sys.executable, "-m", "oxbus.cli", "serve", "--data", str(tmp_path / "bus"), "--amqp-port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["connection_string"]
        with pytest.raises(ServiceBusConnectionError):
            backup(address, tmp_path / "backups", progress=lambda *_: server.send_signal(signal.SIGKILL))
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["owner"]
    backup(tmp_path / "bus", tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "copy")
    assert ids(tmp_path / "copy") == list(range(10 * COUNT))


def test_errors_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    assert main(["backup", str(tmp_path / "none"), str(tmp_path / "backups")]) == 1
    assert "there is no namespace in the directory" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "backups"), str(tmp_path / "copy")]) == 1
    assert "there is no backup in the directory" in capsys.readouterr().err
