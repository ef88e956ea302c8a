# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a waiting call of the bulk client at once, and no message is lost."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusServerBusyError
from oxbus.server import serve
from signatures import connection_string

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from oxbus import Namespace

LIVENESS_SECONDS = 60
"""Time after which a test considers another process stuck; its calls would wait fifty times as long."""

CHILD = """
import contextlib, signal, sys
import pyarrow as pa
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusServerBusyError
signal.signal(signal.SIGINT, signal.default_int_handler)
client = BulkClient(sys.argv[1], timeout=3000)
table = pa.table({{"body": [b"x"]}})
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(130)
"""

CALLS = {
    "describe": "client.describe('q')",
    "send": "client.send('q', table)",
    "receive": "client.receive('q', max_message_count=1, max_wait_time=3000)",
    "settle": "client.settle('q', [bytes(16)], 'complete')",
    "peek": "client.peek('q', 0, 0)",
    "acquire": "client.acquire('q', 'c')",
    "reserve": ("client.reserve('q', 'c', 1, 1, max_messages=1, max_bytes=1, lock_duration=60, max_wait_time=3000)"),
    "stage": "client.stage('q', 's', table)",
    "commit": "client.commit_stages('sink', 'query', 0, ['s'])",
}

RECEIVE = """
    while True:
        with contextlib.suppress(ServiceBusServerBusyError):
            client.receive('{queue_name}', max_message_count=1, max_wait_time=3000)
"""


def until_busy(client: BulkClient) -> None:
    """Send requests until the server rejects one as busy."""
    while True:
        try:
            client.stages()
        except ServiceBusServerBusyError:
            return


def child(call: str, address: str) -> subprocess.Popen[str]:
    """Start another process that makes a call."""
    program = CHILD.format(call=CALLS[call])
    return subprocess.Popen(
        [sys.executable, "-c", program, address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupted(process: subprocess.Popen[str]) -> None:
    """Send SIGINT; check that the process ends by it and prints so."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LIVENESS_SECONDS)
    assert (output.strip(), process.returncode) == ("interrupted", 130), errors


@pytest.mark.parametrize("call", CALLS)
def test_call_without_an_answer_is_interrupted(call: str) -> None:
    """Ctrl-C also works while the server, which accepted the request, does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIVENESS_SECONDS)
        with child(call, connection_string(listener.getsockname()[1])) as process:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIVENESS_SECONDS)
                assert b"HTTP/1.1" in connection.recv(10_000)
                interrupted(process)


def test_interrupted_receive_locks_nothing(namespace: Namespace, queue_name: str) -> None:
    """The server notices: later messages go to other receivers, and no delivery is counted."""
    with serve(namespace, bulk_limits={"requests": 1}) as server, BulkClient(server.connection_string) as client:
        program = CHILD.format(call=RECEIVE.format(queue_name=queue_name))
        arguments = [sys.executable, "-c", program, server.connection_string]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            # The only request slot is in use: the wait has started.
            until_busy(client)
            interrupted(process)
        sent = None
        while sent is None:
            with contextlib.suppress(ServiceBusServerBusyError):
                sent = client.send(queue_name, pa.table({"body": [b"x"]}))
        table = pa.table(client.receive(queue_name, max_message_count=1, max_wait_time=LIVENESS_SECONDS))
        assert table["delivery_count"].to_pylist() == [0]
