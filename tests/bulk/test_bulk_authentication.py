# SPDX-License-Identifier: Apache-2.0
"""Who may call: whoever has the key. Nobody sees the key."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import time
from typing import TYPE_CHECKING

import pytest
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusAuthenticationError, ServiceBusConnectionError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import Namespace
    from oxbus.bulk import BulkServer

KEY = "a key of the tests, long enough"


@pytest.fixture
def locked(namespace: Namespace) -> Iterator[BulkServer]:
    """A server that asks for a key."""
    with namespace.serve_bulk(key=KEY, key_name="spark") as server:
        yield server


def token(expiry_ms: int, name: str = "spark", key: str = KEY) -> str:
    """A token by the letter of docs/bulk-plane.md."""
    head = f"oxbus1.{name.encode().hex()}.{expiry_ms}"
    return f"{head}.{hmac.new(key.encode(), head.encode(), hashlib.sha256).hexdigest()}"


def status(server: BulkServer, authorization: str | None) -> tuple[int, str]:
    """The status and the text of an answer to a plain request."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", "/v1/stages", headers={"authorization": authorization} if authorization else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_key_opens(locked: BulkServer, queue_name: str) -> None:
    """The connection string of the server has all that a client needs."""
    with BulkClient(locked.connection_string) as client:
        assert client.send(queue_name, pa.table({"body": [b"x"]}))
        assert client.describe(queue_name)["active_messages"] == 1


@pytest.mark.parametrize("which", ["none", "another key", "another name"])
def test_everybody_else_is_refused(locked: BulkServer, queue_name: str, which: str) -> None:
    """Also for a large send, which gets the error before it sent its rows."""
    parts = {
        "none": "",
        "another key": f";SharedAccessKeyName=spark;SharedAccessKey={KEY[::-1]}",
        "another name": f";SharedAccessKeyName=flink;SharedAccessKey={KEY}",
    }
    with BulkClient(f"Endpoint={locked.endpoint}{parts[which]}") as client:
        with pytest.raises(ServiceBusAuthenticationError) as caught:
            client.describe(queue_name)
        assert KEY not in str(caught.value)
        with pytest.raises(ServiceBusAuthenticationError):
            client.send(queue_name, pa.table({"body": [b"x" * 1000] * 20_000}))
    with BulkClient(locked.connection_string) as client:
        assert client.describe(queue_name)["active_messages"] == 0


def test_tokens_are_those_of_the_documentation(locked: BulkServer) -> None:
    """Valid, expired, for too long, of another key, malformed, missing."""
    now = time.time_ns() // 1_000_000
    assert status(locked, f"Bearer {token(now + 60_000)}")[0] == 200
    refused = {
        f"Bearer {token(now - 120_000)}": "expired",
        f"Bearer {token(now + 2 * 3_600_000)}": "longer than an hour",
        f"Bearer {token(now + 60_000, key='another key, of some length')}": "another key",
        f"Bearer {token(now + 60_000, name='x')}": "another key",
        f"Bearer {token(now + 60_000)[:-2]}": "another key",
        "Bearer nonsense": "malformed",
        f"Basic {token(now + 60_000)}": "asks for a key",
    }
    for authorization, text in refused.items():
        code, answer = status(locked, authorization)
        assert (code, '"kind":"Unauthenticated"' in answer) == (401, True)
        assert text in answer
        assert KEY not in answer
    assert status(locked, None)[0] == 401


def test_server_without_a_key_takes_any_token(server: BulkServer, queue_name: str) -> None:
    """A client with a key works where none is needed."""
    with BulkClient(f"{server.connection_string};SharedAccessKeyName=a;SharedAccessKey={KEY}") as client:
        assert client.describe(queue_name)["kind"] == "queue"


def test_others_cannot_reach_a_server_without_a_key(namespace: Namespace) -> None:
    """All addresses of the machine need a key; any loopback address does not."""
    for host in ("0.0.0.0", "::"):  # noqa: S104 (that is what is refused)
        with pytest.raises(ValueError, match="needs a key"):
            namespace.serve_bulk(host)
    with namespace.serve_bulk("127.0.0.2") as server:
        assert server.host == "127.0.0.2"
        with BulkClient(server.connection_string) as client:
            assert client.stages() == []
    with namespace.serve_bulk("0.0.0.0", key=KEY) as server:  # noqa: S104 (with a key)
        address = f"Endpoint=http://127.0.0.1:{server.port}"
        with pytest.raises(ServiceBusAuthenticationError):
            BulkClient(address).stages()
        assert BulkClient(f"{address};SharedAccessKeyName=bulk;SharedAccessKey={KEY}").stages() == []


def test_keys_are_never_shown(locked: BulkServer) -> None:
    """Neither by objects nor by errors; the connection string is where the key is."""
    assert KEY in locked.connection_string
    with BulkClient(locked.connection_string) as client:
        assert KEY not in repr(locked) + repr(client) + str(vars(type(client)))
    locked.close()
    with BulkClient(locked.connection_string) as client, pytest.raises(ServiceBusConnectionError) as caught:
        client.stages()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"key": "short"}, "too short"),
        ({"key": "semicolons; do not fit in"}, "no semicolon"),
        ({"key": KEY, "key_name": "a;b"}, "no semicolon"),
        ({"port": 70_000}, "port is out of range"),
        ({"port": -1}, "port is out of range"),
        ({"certificate": "cert.pem"}, "belong together"),
        ({"certificate": "cert.pem", "private_key": "key.pem"}, "certificate cannot be read"),
    ],
)
def test_wrong_options(namespace: Namespace, options: dict[str, object], text: str) -> None:
    """Each is refused before anything listens."""
    with pytest.raises(ValueError, match=text):
        namespace.serve_bulk(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Endpoint=memory://x",
        "Endpoint=http://",
        "Endpoint=http://h:99999",
        "Endpoint=http://h;SharedAccessKey=0123456789abcdef",
        "Endpoint=http://h;SharedAccessKeyName=a;SharedAccessKey=short",
        "Endpoint=http://h;Surprise=1",
        "http://h:80",
    ],
)
def test_wrong_connection_strings(text: str) -> None:
    """Each is refused before anything is connected, and its text is not repeated."""
    with pytest.raises(ValueError, match=r"Endpoint=http://host:port|too short") as caught:
        BulkClient(text)
    assert "0123456789abcdef" not in str(caught.value)


def test_wrong_timeout() -> None:
    """A timeout is more than nothing."""
    with pytest.raises(ValueError, match="timeout"):
        BulkClient("Endpoint=http://127.0.0.1:1", timeout=0)
