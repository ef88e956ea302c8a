# SPDX-License-Identifier: Apache-2.0
"""`oxbus token`: a token opens what it is for, as long as it is valid."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus.server import Server

STRING = (
    "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=root;SharedAccessKey=a key of the tests;UseDevelopmentEmulator=true"
)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with two queues."""
    with Namespace(partitions=1) as namespace:
        for name in ("orders", "others"):
            ServiceBusAdministrationClient(namespace).create_queue(name)
        with serve(namespace) as server:
            yield server


def status(server: Server, path: str, token: str) -> int:
    """The status of a request for an entity."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": token})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_token_of_the_namespace_and_of_one_queue(server: Server, run: Callable[..., Any]) -> None:
    """The scope is the entity that was named."""
    all_of_it = run("token", "--connection-string", server.connection_string)
    assert (all_of_it.code, all_of_it.err) == (0, "")
    of_orders = run(
        "token", "orders", "--valid-for", "30d", "--connection-string", server.connection_string
    ).out.strip()
    version = "?api-version=2021-05"
    assert [status(server, f"/{name}{version}", all_of_it.out.strip()) for name in ("orders", "others")] == [200, 200]
    assert [status(server, f"/{name}{version}", of_orders) for name in ("orders", "others")] == [200, 401]
    assert status(server, f"/orders{version}", of_orders.replace("sig=", "sig=A")) == 401


def test_the_variable_names_the_server(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As for other commands; the key itself is not printed."""
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", STRING)
    printed = run("token").out
    assert printed.startswith("SharedAccessSignature sr=https%3A%2F%2F127.0.0.1%3A1%2F&sig=")
    assert "a key of the tests" not in printed
    assert run("token", "--json").json["token"].startswith("SharedAccessSignature sr=")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "specify the server"),
        (("--connection-string", "Endpoint=sb://host;SharedAccessSignature=sr"), "has no key"),
        (("--connection-string", "nothing"), "Endpoint"),
        (("--connection-string", STRING, "--valid-for", "never"), "a token ends"),
        (("--connection-string", STRING, "--valid-for", "0s"), "more than 0"),
        (("--connection-string", STRING, "--valid-for", "3651d"), "at most 3650d"),
    ],
)
def test_refusals(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    """Each says what to do."""
    monkeypatch.delenv("OXBUS_CONNECTION_STRING", raising=False)
    refused = run("token", *arguments)
    assert refused.code == 2
    assert said in refused.err
