# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve` under systemd: it says when it is ready, that it answers, and that it stops."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace
from oxbus.cli._service_manager import ServiceManager
from oxbus.server import serve
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

PERIOD_US = "200000"
SECONDS = 30


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which a service manager listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(SECONDS)
        yield listening


def told(manager: socket.socket) -> str:
    """The next state that the manager is told."""
    return manager.recv(1024).decode()


def test_the_life_of_a_server(launch: Callable[..., subprocess.Popen[str]], manager: socket.socket) -> None:
    """Ready, alive again and again, stopping."""
    address = manager.getsockname()
    process = launch("--memory", "--amqp-port", "0", NOTIFY_SOCKET=address, WATCHDOG_USEC=PERIOD_US)
    assert [told(manager) for _ in range(4)] == ["READY=1\nSTATUS=ready", *["WATCHDOG=1"] * 3]
    process.send_signal(signal.SIGTERM)
    while (state := told(manager)) == "WATCHDOG=1":
        pass
    assert state == "STOPPING=1"
    assert process.wait(SECONDS) == 0


def test_a_watchdog_of_another_process(launch: Callable[..., subprocess.Popen[str]], manager: socket.socket) -> None:
    """A child process inherits the variables, but not the duty."""
    variables = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": PERIOD_US, "WATCHDOG_PID": "1"}
    process = launch("--memory", "--amqp-port", "0", **variables)
    assert told(manager) == "READY=1\nSTATUS=ready"
    manager.settimeout(1)
    with pytest.raises(TimeoutError):
        told(manager)
    process.terminate()
    assert process.wait(SECONDS) == 0


def test_a_server_that_does_not_answer(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not called alive: nobody accepts the connection, or nothing is answered in time."""
    monkeypatch.setattr("oxbus.cli._service_manager.ANSWERS_WITHIN", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        told_by = ServiceManager(manager.getsockname(), 0.1, "127.0.0.1", silent.getsockname()[1])
        told_by.tell_if_alive()
        silent.listen()
        told_by.tell_if_alive()
        told_by.tell_if_ready()
    assert told(manager) == "STATUS=not ready: no answer"
    manager.settimeout(0)
    with pytest.raises(BlockingIOError):
        told(manager)


def test_a_manager_that_is_gone(tmp_path: Path) -> None:
    """The server goes on."""
    for address in (str(tmp_path / "gone"), None):
        ServiceManager(address, None, "127.0.0.1", 1).tell("STOPPING=1")


def test_readiness_is_that_of_the_server(manager: socket.socket) -> None:
    """READY=1 follows `/$health/ready`, and is said once; the watchdog follows `/$health/live`."""
    with Namespace(partitions=2) as namespace, serve(namespace) as server:
        told_by = ServiceManager(manager.getsockname(), 60, "127.0.0.1", server.port)
        for partition in range(2):
            inject_fault(namespace, partition, "unavailable")
        told_by.tell_if_ready()
        told_by.tell_if_alive()
        assert [told(manager), told(manager)] == ["STATUS=not ready: out_of_service", "WATCHDOG=1"]
        assert told_by.interval == 1
        heal(namespace, 1)
        told_by.tell_if_ready()
        told_by.tell_if_ready()
        told_by.tell("STOPPING=1")
        assert [told(manager), told(manager)] == ["READY=1\nSTATUS=ready", "STOPPING=1"]
        assert told_by.interval == 60
