# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve` logs to standard error: start and end, rejected clients and faults, as text or as JSON."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from oxbus.cli import main
from signatures import token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIVENESS_SECONDS = 60
LIFE = ["server.starting", "server.ready", "server.draining", "server.stopped"]


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Serve a namespace in memory, reject a client, stop; return the standard error."""
    processes: list[subprocess.Popen[str]] = []

    def served(*arguments: str) -> str:
        command = [sys.executable, "-m", "oxbus.cli", "serve", "--memory", "--amqp-port", "0", "--json", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["amqp_port"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIVENESS_SECONDS)
        headers = {"Authorization": token("sb://127.0.0.1", key="wrong")}
        connection.request("POST", "/orders/messages", b"x", headers)
        assert connection.getresponse().status == 401
        connection.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LIVENESS_SECONDS)
        assert process.returncode == 0, errors
        return errors

    yield served
    for process in processes:
        process.kill()


def test_text_shows_start_end_and_rejected_clients(served: Callable[..., str]) -> None:
    """Time, level, logger, event and fields; connections only at debug."""
    lines = served().splitlines()
    found = [re.fullmatch(r"(\S+Z) ([A-Z]+) (oxbus\.[a-z]+) ([a-z_.]+)( \S+=.+)?", line) for line in lines]
    events = [match[4] for match in found if match]
    assert len(events) == len(lines)
    assert [event for event in events if event.startswith("server.")] == LIFE
    assert "INFO oxbus.broker namespace.opened" in lines[0]
    refused = [line for line in lines if "client.refused" in line]
    assert len(refused) == 1
    assert "WARNING oxbus.server client.refused" in refused[0]
    assert "entity=orders reason=WrongKey" in refused[0]
    assert not [event for event in events if event.startswith("connection.")]


def test_json_has_an_object_in_each_line(served: Callable[..., str]) -> None:
    """With the fields beside time, level, logger and event."""
    lines = [json.loads(line) for line in served("--log-format", "json", "--log-level", "debug").splitlines()]
    events = [line["event"] for line in lines if line["logger"] == "oxbus.server"]
    # The connection ends while the server shuts down.
    events.remove("connection.closed")
    assert events == [*LIFE[:2], "connection.opened", "client.refused", *LIFE[2:]]
    (refused,) = [line for line in lines if line["event"] == "client.refused"]
    assert {name: value for name, value in refused.items() if name != "time"} == {
        "level": "warning",
        "logger": "oxbus.server",
        "event": "client.refused",
        "key_name": "RootManageSharedAccessKey",
        "entity": "orders",
        "reason": "WrongKey",
    }


def test_level_filters_lines(served: Callable[..., str]) -> None:
    """Rejections are warnings; there are no errors."""
    assert [line.split()[3] for line in served("--log-level", "warning").splitlines()] == ["client.refused"]
    assert served("--log-level", "error") == ""


def test_other_commands_log_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure is one line, whatever the broker logs."""
    path = tmp_path / "bus"
    assert main(["init", str(path)]) == 0
    for shard in path.glob("shard-00/*.snapshot"):
        shard.write_bytes(b"damaged")
    capsys.readouterr()
    assert main(["stats", "--data", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("oxbus: partitions out of service: 0")
