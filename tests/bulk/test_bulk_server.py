# SPDX-License-Identifier: Apache-2.0
"""A server and its bulk clients: wrong requests, disconnects, and the close of the server and its namespace."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusConnectionError
from oxbus.server import serve
from signatures import connection_string, token

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace
    from oxbus.server import Server


PEEK = "/$bulk/v1/peek?entity=q&partition=0&from=0&max_bytes=1&include_body=true"
RECEIVE = "/$bulk/v1/receive?entity=q&max_message_count=1&max_wait_time_ms=0&receive_mode=peek_lock"


def raw(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, Any]]:
    """Send a plain request with a token of the namespace; return its status and JSON."""
    headers.setdefault("authorization", token("sb://x"))
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    parsed = json.loads(answer.read())
    connection.close()
    return answer.status, parsed


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/$bulk/v1/nothing", b"", 501, "NotSupported"),
        ("GET", "/$bulk", b"", 501, "NotSupported"),
        ("GET", "/$bulk/v2/stages", b"", 501, "NotSupported"),
        ("POST", "/$bulk/v1/describe?entity=q", b"", 501, "NotSupported"),
        ("GET", "/$bulk/v1/describe", b"", 400, "InvalidArgument"),
        ("GET", "/$bulk/v1/describe?entity=q&more=1", b"", 400, "InvalidArgument"),
        ("GET", "/$bulk/v1/describe?entity=missing", b"", 404, "EntityNotFound"),
        ("POST", "/$bulk/v1/settle", b"{", 400, "InvalidArgument"),
        ("POST", "/$bulk/v1/settle", b"{}", 400, "InvalidArgument"),
        ("POST", "/$bulk/v1/reservations/acquire", b'{"entity": 1}', 400, "InvalidArgument"),
        (
            "GET",
            "/$bulk/v1/peek?entity=missing&partition=x&from=0&max_bytes=1&include_body=true",
            b"",
            400,
            "InvalidArgument",
        ),
        ("GET", f"{PEEK}&columns=body,bodies", b"", 400, "InvalidArgument"),
        ("GET", f"{PEEK}&columns=", b"", 400, "InvalidArgument"),
        ("POST", f"{RECEIVE}&columns=bodies", b"", 400, "InvalidArgument"),
    ],
)
def test_wrong_requests(server: Server, method: str, path: str, body: bytes, status: int, kind: str) -> None:
    """Each gets a status and an error with kind and detail."""
    code, answer = raw(server, method, path, body, **{"content-type": "application/json"})
    assert (code, answer["error"]["kind"]) == (status, kind)
    assert answer["error"]["detail"]


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xff\xff\xff\xff\xff\xff\xff\x7f", bytes(1000), b"\x7f" * 1000])
def test_invalid_table_bytes(server: Server, bulk: BulkClient, queue_name: str, body: bytes) -> None:
    """Nothing is stored, and the server keeps working."""
    code, answer = raw(server, "POST", f"/$bulk/v1/send?entity={queue_name}", body)
    assert (code, answer) == (200, {"stored": {}}) or (code, answer["error"]["kind"]) == (400, "InvalidArgument")
    assert bulk.describe(queue_name)["active_messages"] == 0


def test_damaged_streams_store_nothing(
    server: Server, bulk: BulkClient, queue_name: str, rows: Callable[..., Any]
) -> None:
    """After a change of any byte of a stream there is an error or all rows, and the server keeps working."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows(3).schema) as writer:
        writer.write_table(rows(3))
    good = sink.getvalue().to_pybytes()
    for at in range(0, len(good), 7):
        bad = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
        before = bulk.describe(queue_name)["active_messages"]
        code, answer = raw(server, "POST", f"/$bulk/v1/send?entity={queue_name}", bad)
        stored = bulk.describe(queue_name)["active_messages"] - before
        assert stored == (sum(answer["stored"].values()) if code == 200 else 0)
    for length in range(0, len(good) - 8, 13):
        raw(server, "POST", f"/$bulk/v1/send?entity={queue_name}", good[:length])
    assert raw(server, "POST", f"/$bulk/v1/send?entity={queue_name}", good)[0] == 200


def test_send_that_breaks_off_stores_nothing(
    server: Server, bulk: BulkClient, queue_name: str, rows: Callable[..., Any]
) -> None:
    """A client that dies while sending rows stores nothing, even if whole batches had arrived."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows(3).schema) as writer:
        for _ in range(50):
            writer.write_table(rows(1000))
    stream = sink.getvalue().to_pybytes()
    line = f"POST /$bulk/v1/send?entity={queue_name} HTTP/1.1\r\nhost: x\r\nauthorization: {token('sb://x')}\r\n"
    head = f"{line}transfer-encoding: chunked\r\n\r\n".encode()
    for cut in (1, len(stream) // 2, len(stream)):
        with socket.create_connection((server.host, server.port)) as connection:
            connection.sendall(head + f"{cut:x}\r\n".encode() + stream[:cut] + b"\r\n")
            connection.shutdown(socket.SHUT_WR)
            assert b" 200 " not in connection.recv(1000)
    assert bulk.describe(queue_name)["active_messages"] == 0


def test_head_that_is_too_large(server: Server, bulk: BulkClient, queue_name: str) -> None:
    """A request with endless headers is closed, and others keep working."""
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        answer = b""
        try:
            for _ in range(100):
                connection.sendall(b"x: " + b"y" * 10_000 + b"\r\n")
            answer = connection.recv(1000)
        except OSError:
            pass
    assert answer == b"" or b" 431 " in answer
    assert bulk.describe(queue_name)["kind"] == "queue"


def test_two_clients_and_many_threads(server: Server, queue_name: str) -> None:
    """All messages of all senders are received once."""
    senders, each = 4, 25
    clients = [BulkClient(server.connection_string) for _ in range(2)]
    received: list[bytes] = []
    guard = threading.Lock()

    def send(name: int) -> None:
        for number in range(each):
            clients[name % 2].send(queue_name, pa.table({"body": [f"{name}-{number}".encode()] * 10}))

    def receive(client: BulkClient) -> None:
        while True:
            table = pa.table(client.receive(queue_name, max_message_count=100, max_wait_time=60))
            assert client.settle(queue_name, table, "complete") == []
            with guard:
                received.extend(table["body"].to_pylist())
                if len(received) >= senders * each * 10:
                    return
                if table.num_rows == 0:
                    return

    threads = [threading.Thread(target=send, args=(name,)) for name in range(senders)]
    threads.append(threading.Thread(target=receive, args=(clients[0],)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    expected = [f"{name}-{number}".encode() for name in range(senders) for number in range(each) for _ in range(10)]
    assert sorted(received) == sorted(expected)


def test_close_ends_waits_and_frees_the_port(namespace: Namespace, queue_name: str) -> None:
    """A waiting receive ends without messages; afterwards the port is closed, and another server can use it."""
    server = serve(namespace)
    client = BulkClient(server.connection_string)
    client.describe(queue_name)
    found: list[Any] = []

    def wait() -> None:
        try:
            found.append(len(client.receive(queue_name, max_message_count=1, max_wait_time=3000)))
        except ServiceBusConnectionError as error:
            found.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    server.close()
    server.close()
    waiting.join(60)
    # The request arrived before the close, or after it.
    assert found == [0] or isinstance(found[0], ServiceBusConnectionError)
    assert server.closed
    with pytest.raises(ServiceBusConnectionError, match="cannot be reached"):
        client.describe(queue_name)
    with serve(namespace, amqp_port=server.port) as again:
        assert again.port == server.port
        assert client.describe(queue_name)["kind"] == "queue", "the client reconnects"


def connections(server: Server) -> int:
    """The number of HTTP connections of a server so far; this request is one more."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    (count,) = (line.split()[1] for line in lines if line.startswith('oxbus_connections_total{protocol="http"}'))
    return int(count)


def test_calls_use_one_connection(server: Server, bulk: BulkClient, queue_name: str, rows: Callable[..., Any]) -> None:
    """Sequential calls of every kind: with rows, without, rejected, and with chunked answers."""
    bulk.describe(queue_name)
    before = connections(server)
    for _ in range(20):
        bulk.send(queue_name, rows(10))
        assert len(bulk.receive(queue_name, max_message_count=100, receive_mode="receive_and_delete")) > 0
        bulk.peek(queue_name, 0, 0)
        with pytest.raises(ValueError, match="outcome"):
            bulk.settle(queue_name, [bytes(16)], "lose")  # type: ignore[arg-type] # an invalid outcome on purpose
    assert connections(server) == before + 1


def test_client_continues_after_a_server_restart(
    namespace: Namespace, queue_name: str, rows: Callable[..., Any]
) -> None:
    """The client detects connections that closed between two calls before a call that is not safe to repeat."""
    with serve(namespace) as server:
        client = BulkClient(server.connection_string)
        client.describe(queue_name)
    for call in (
        lambda: client.send(queue_name, rows(1)),
        lambda: client.settle(queue_name, [bytes(16)], "complete"),
        lambda: client.receive(queue_name, max_message_count=1),
    ):
        with serve(namespace, amqp_port=server.port):
            call()


def test_close_lets_a_send_finish(namespace: Namespace, queue_name: str, rows: Callable[..., Any]) -> None:
    """Rows in flight when the server closes are stored, and their sender gets the result."""
    server = serve(namespace)
    client = BulkClient(server.connection_string)
    table = rows(10)
    closing = threading.Thread(target=server.close)

    def batches() -> Any:
        yield table.to_batches()[0]
        # The request is in progress: the server requested the rows.
        closing.start()
        yield table.to_batches()[0]

    assert sum(client.send(queue_name, pa.RecordBatchReader.from_batches(table.schema, batches())).values()) == 20
    closing.join(60)
    assert server.closed


def test_closed_namespace_is_an_error(namespace: Namespace, bulk: BulkClient, queue_name: str) -> None:
    """The server still answers, with the error of every closed handle."""
    namespace.close()
    with pytest.raises(ValueError, match="closed"):
        bulk.describe(queue_name)
    with pytest.raises(ValueError, match="closed"):
        bulk.send(queue_name, pa.table({"body": [b"x"]}))


def test_closed_client_is_an_error(server: Server) -> None:
    """The error is that of every closed handle."""
    client = BulkClient(server.connection_string)
    client.close()
    client.close()
    with pytest.raises(ValueError, match="client was closed"):
        client.stages()


def test_other_servers_are_recognized() -> None:
    """One server does not speak HTTP, another answers HTTP but is not oxbus."""
    for answer, error in (
        (b"SSH-2.0-x\r\n", "not an oxbus server"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", "proxy"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve(listener: socket.socket = listener, answer: bytes = answer) -> None:
                connection, _ = listener.accept()
                connection.recv(1000)
                connection.sendall(answer)
                connection.close()

            serving = threading.Thread(target=serve)
            serving.start()
            client = BulkClient(connection_string(listener.getsockname()[1]))
            with pytest.raises(ServiceBusConnectionError, match=error):
                client.stages()
            serving.join(60)
