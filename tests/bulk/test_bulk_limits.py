# SPDX-License-Identifier: Apache-2.0
"""Limits on the resources that bulk clients use: each limit under the attack that it prevents, at a smaller scale."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.bulk import BulkClient
from oxbus.exceptions import MessageSizeExceededError, ServiceBusServerBusyError
from oxbus.server import serve
from signatures import token

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace
    from oxbus.server import Server

MEBIBYTE = 1 << 20
LIVENESS_SECONDS = 60
"""Time after which a socket considers the server stuck; never a measure of speed."""


def stream_of(mebibytes: int) -> bytes:
    """An Arrow stream of messages with `mebibytes` of bodies."""
    table = pa.table({"body": [bytes(MEBIBYTE)] * mebibytes})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def begin(server: Server, route: str, *chunks: bytes) -> socket.socket:
    """Begin a request with a body of chunks that does not end."""
    connection = socket.create_connection((server.host, server.port), timeout=LIVENESS_SECONDS)
    head = f"POST /$bulk/v1/{route} HTTP/1.1\r\nhost: x\r\nauthorization: {token('sb://x')}\r\n"
    connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
    for chunk in chunks:
        connection.sendall(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
    return connection


def answer_of(connection: socket.socket) -> tuple[int, str]:
    """Status and kind of error of the answer."""
    received = b""
    while b"\r\n\r\n" not in received or not received.rstrip().endswith(b"}"):
        piece = connection.recv(10_000)
        assert piece, received
        received += piece
    head, body = received.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(body)["error"]["kind"]


def retry_while_busy(call: Callable[[], Any]) -> Any:
    """Make a call, and repeat it while the server is busy."""
    while True:
        with contextlib.suppress(ServiceBusServerBusyError):
            return call()


def until_busy(client: BulkClient) -> None:
    """Send requests until the server rejects one as busy."""
    while True:
        try:
            client.stages()
        except ServiceBusServerBusyError as error:
            assert "bulk requests; wait" in str(error)  # noqa: PT017 (the time does not matter)
            return


def test_too_many_requests(namespace: Namespace, queue_name: str) -> None:
    """Waits for messages count; further requests are rejected as busy, and the end of a wait frees a slot."""
    with serve(namespace, bulk_limits={"requests": 3}) as server, BulkClient(server.connection_string) as client:
        found: list[int] = []

        def wait() -> None:
            with BulkClient(server.connection_string) as waiter:
                found.append(
                    len(retry_while_busy(lambda: waiter.receive(queue_name, max_message_count=1, max_wait_time=3000)))
                )

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        until_busy(client)
        assert found == []
        with ServiceBusClient(namespace) as local:
            local.get_queue_sender(queue_name).send_messages([ServiceBusMessage(b"x") for _ in range(3)])
        for thread in threads:
            thread.join(LIVENESS_SECONDS)
        assert found == [1, 1, 1]
        assert client.describe(queue_name)["kind"] == "queue"


def test_clients_that_disconnect_free_their_slots(namespace: Namespace, queue_name: str) -> None:
    """Forty clients that send a request and disconnect occupy a slot only while they are connected."""
    with serve(namespace, bulk_limits={"requests": 8}) as server, BulkClient(server.connection_string) as client:
        route = (
            f"/$bulk/v1/receive?entity={queue_name}&max_message_count=1&max_wait_time_ms=3000000&receive_mode=peek_lock"
        )
        head = f"POST {route} HTTP/1.1\r\nhost: x\r\nauthorization: {token('sb://x')}\r\n"
        request = f"{head}content-length: 0\r\n\r\n".encode()
        refused = 0
        with contextlib.ExitStack() as attack:
            connections = [
                attack.enter_context(socket.create_connection((server.host, server.port), timeout=LIVENESS_SECONDS))
                for _ in range(40)
            ]
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                connection.setblocking(False)
            while refused < 32:
                for connection in list(connections):
                    try:
                        assert b" 503 " in connection.recv(10_000)
                    except BlockingIOError:
                        continue
                    connections.remove(connection)
                    refused += 1
            until_busy(client)
        retry_while_busy(lambda: client.describe(queue_name))
        client.send(queue_name, pa.table({"body": [b"x"]}))
        # No disconnected client has received the message.
        assert len(client.receive(queue_name, max_message_count=1, max_wait_time=LIVENESS_SECONDS)) == 1


def test_one_send_that_is_too_large(namespace: Namespace, queue_name: str) -> None:
    """The send fails as soon as it exceeds the limit; the error names the limit, and nothing is stored."""
    with serve(namespace, bulk_limits={"send_bytes": 4 * MEBIBYTE}) as server:
        client = BulkClient(server.connection_string)
        with pytest.raises(MessageSizeExceededError, match=f"limit={4 * MEBIBYTE} bytes"):
            client.send(queue_name, pa.table({"body": [bytes(MEBIBYTE // 2)] * 10}))
        assert client.describe(queue_name)["active_messages"] == 0
        client.send(queue_name, pa.table({"body": [bytes(MEBIBYTE // 2)] * 6}))
        assert client.describe(queue_name)["active_messages"] == 6


def test_unfinished_sends_have_a_common_limit(namespace: Namespace, queue_name: str) -> None:
    """Senders that stop in the middle use up the limit for all; others are rejected as busy until they end."""
    rows = stream_of(3)
    with serve(namespace, bulk_limits={"unstored_bytes": 10 * MEBIBYTE}) as server:
        client = BulkClient(server.connection_string)
        table = pa.table({"body": [bytes(MEBIBYTE // 2)] * 8})
        stored = 0
        with contextlib.ExitStack() as attack:
            refusal = ""
            while not refusal:
                attack.enter_context(begin(server, f"send?entity={queue_name}", rows[:-100]))
                try:
                    stored += sum(client.send(queue_name, table).values())
                except ServiceBusServerBusyError as error:
                    refusal = str(error)
            assert "unfinished requests hold too much memory" in refusal
            assert client.describe(queue_name)["active_messages"] == stored, "refused sends store nothing"
        retry_while_busy(lambda: client.send(queue_name, table))
        assert client.describe(queue_name)["active_messages"] == stored + 8, "unfinished sends store nothing"


@pytest.mark.parametrize("route", ["send?entity={}", "stages?entity={}&id=s"])
def test_body_that_stops(namespace: Namespace, queue_name: str, route: str) -> None:
    """After the longest allowed pause of a body the request fails; it stored nothing and left no stage."""
    rows = stream_of(2)
    with serve(namespace, bulk_limits={"body_pause_ms": 300}) as server:
        client = BulkClient(server.connection_string)
        for sent in (b"", rows[:1], rows[: len(rows) // 2], rows[:-1]):
            with begin(server, route.format(queue_name), *([sent] if sent else [])) as connection:
                assert answer_of(connection) == (504, "Timeout")
        assert client.describe(queue_name)["active_messages"] == 0
        assert client.stages() == []
        assert client.stage(queue_name, "s", pa.table({"body": [b"x"]})) == 1, "the id is free"


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"requests": 513}, "1 to 512: requests=513"),
        ({"requests": 0}, "requests=0"),
        ({"requests": -1}, "limits can only be lowered"),
        ({"unstored_bytes": (1 << 30) + 1}, "1 to 1073741824"),
        ({"body_pause_ms": 300_001}, "1 to 300000"),
        ({"backup_pause_ms": 60_001}, "1 to 60000"),
        ({"colour": 1}, "unknown limit; use `requests`.*`colour`"),
    ],
)
def test_limits_cannot_be_raised(namespace: Namespace, limits: dict[str, Any], text: str) -> None:
    """No limit can be raised above the server's maximum."""
    with pytest.raises(ValueError, match=text):
        serve(namespace, bulk_limits=limits)
