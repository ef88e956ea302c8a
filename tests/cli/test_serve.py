# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve`: a process that others reach over the network, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusAuthenticationError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LIVENESS_SECONDS = 60
KEY = "a key of the tests, long enough"


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Start a server on a free port, and return its process and its address once it is ready."""
    started: list[subprocess.Popen[str]] = []

    def serve(*arguments: str, **variables: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "oxbus.cli", "serve", "--bulk-port", "0", "--json", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=LIVENESS_SECONDS)[1]
        return process, json.loads(line)["bulk_endpoint"]

    yield serve
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIVENESS_SECONDS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_ends_it_and_nothing_is_lost(
    serve: Callable[..., Any], data: Path, ox: Callable[..., Any], number: signal.Signals, code: int
) -> None:
    """What was sent is in the directory afterwards; the exit code tells Ctrl-C from an order to end."""
    ox("queue", "create", "orders")
    process, endpoint = serve()
    with BulkClient(f"Endpoint={endpoint}") as client:
        client.send("orders", pa.table({"body": [b"kept"] * 5}))
        process.send_signal(number)
        out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert (process.returncode, out, err) == (code, "", "")
    with Namespace(data) as namespace, ServiceBusClient(namespace).get_queue_receiver("orders") as receiver:
        assert len(receiver.receive_messages(10, max_wait_time=5)) >= 1


def test_memory_with_a_configuration_and_a_key(serve: Callable[..., Any], tmp_path: Path) -> None:
    """The entities of the file are there, the key of the environment is asked for and never shown."""
    config = tmp_path / "config.json"
    queue = {"Name": "orders", "Properties": {}}
    config.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [queue]}]}}))
    process, endpoint = serve("--memory", "--config", str(config), OXBUS_BULK_KEY=KEY)
    with BulkClient(f"Endpoint={endpoint}") as client, pytest.raises(ServiceBusAuthenticationError):
        client.describe("orders")
    with BulkClient(f"Endpoint={endpoint};SharedAccessKeyName=bulk;SharedAccessKey={KEY}") as client:
        assert client.describe("orders")["kind"] == "queue"
    process.terminate()
    out, err = process.communicate(timeout=LIVENESS_SECONDS)
    assert KEY not in out + err


def test_what_cannot_be_served_is_one_line(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No place, no namespace there, no key for all the world, a wrong port."""
    monkeypatch.delenv("OXBUS_DATA", raising=False)
    outcome = run("serve", "--bulk-port", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--memory" in outcome.err
    outcome = run("serve", "--bulk-port", "0", "--data", str(tmp_path / "nothing"))
    assert (outcome.code, "no namespace" in outcome.err) == (1, True)
    outcome = run("serve", "--bulk-port", "0", "--memory", "--host", "0.0.0.0")  # noqa: S104 (that is refused)
    assert (outcome.code, "needs a key" in outcome.err) == (1, True)
    outcome = run("serve", "--bulk-port", "70000", "--memory")
    assert (outcome.code, "port is out of range" in outcome.err) == (1, True)
    assert run("serve", "--memory").code == 2
