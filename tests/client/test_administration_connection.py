# SPDX-License-Identifier: Apache-2.0
"""Addresses, credentials, TLS, proxies and connections of the administration client."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from certificates import make_certificate
from http_proxy import Proxy
from oxbus import Namespace
from oxbus._remote import _http
from oxbus._remote._address import administration_address
from oxbus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import serve
from scripted_http import answer, entry
from signatures import KEY, KEY_NAME, token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.server import Server


class Token(NamedTuple):
    """A token as azure-identity returns it."""

    token: str
    expires_on: float


class Credential:
    """Gives numbered tokens, and records the scopes."""

    def __init__(self, text: str = "token-{}", seconds: float = 3600) -> None:
        self._text = text
        self._seconds = seconds
        self.scopes: list[str] = []

    def get_token(self, *scopes: str) -> Token:
        """Return the next token."""
        self.scopes += scopes
        return Token(self._text.format(len(self.scopes)), time.time() + self._seconds)


@pytest.mark.parametrize(
    ("namespace", "tls", "shown"),
    [
        ("bus.example.net", True, "https://bus.example.net:443"),
        ("bus.example.net:8443", True, "https://bus.example.net:8443"),
        ("sb://bus.example.net/", True, "https://bus.example.net:443"),
        ("localhost", False, "http://localhost:5300"),
        ("localhost:5672", False, "http://localhost:5672"),
        ("[::1]:5671", True, "https://[::1]:5671"),
        ("[::1]", False, "http://[::1]:5300"),
    ],
)
def test_address(namespace: str, tls: bool, shown: str) -> None:
    """HTTPS at 443; for the emulator HTTP at 5300, its management port; a given port always counts."""
    address = administration_address(namespace, tls=tls)
    assert address.shown == shown
    assert address.authority == namespace.removeprefix("sb://").rstrip("/")


@pytest.mark.parametrize("namespace", ["", "a b", "user@host", "host:port", "host:99999", "sb://", "[::1"])
def test_malformed_address(namespace: str) -> None:
    """Refused when the client is created."""
    with pytest.raises(ValueError, match="fully_qualified_namespace must be a host"):
        ServiceBusAdministrationClient(namespace, ("name", "key"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: (KEY_NAME, KEY),
        lambda: token("https://localhost", KEY_NAME, KEY),
        lambda: AzureNamedKeyCredential(KEY_NAME, KEY),
        lambda: AzureSasCredential(token("https://localhost", KEY_NAME, KEY)),
        lambda: ServiceBusSharedKeyCredential(KEY_NAME, KEY),
        lambda: Credential(token("https://localhost", KEY_NAME, KEY)),
    ],
    ids=["pair", "text", "named key", "signature", "the SDK's key", "get_token"],
)
def test_every_credential_over_tls(server: Server, certificate: Path, make: Callable[[], Any]) -> None:
    """A host and a credential, as with the SDK, and the issuer of the certificate."""
    host = f"localhost:{server.port}"
    # Made now: a token made when the tests are collected may end before its test begins.
    with ServiceBusAdministrationClient(host, make(), connection_verify=certificate) as admin:
        assert admin.create_queue("orders").name == "orders"
        assert [queue.name for queue in admin.list_queues()] == ["orders"]


@pytest.mark.parametrize("credential", [None, 7, ("name",), ("name", 7), object()])
def test_other_credentials_are_refused(credential: Any) -> None:
    """When the client is created, with the alternatives."""
    with pytest.raises(TypeError, match="credential"):
        ServiceBusAdministrationClient("bus.example.net", credential)
    with pytest.raises(ValueError, match="SharedAccessSignature"):
        ServiceBusAdministrationClient("bus.example.net", "a key")


def test_signature_in_a_connection_string(server: Server) -> None:
    """In place of a key and its name."""
    signature = token("sb://127.0.0.1", KEY_NAME, KEY)
    text = f"Endpoint=sb://127.0.0.1:{server.port};SharedAccessSignature={signature};UseDevelopmentEmulator=true"
    with ServiceBusAdministrationClient.from_connection_string(text) as admin:
        assert list(admin.list_queues()) == []


def test_tokens_are_kept_and_renewed(scripted: Any) -> None:
    """A token is asked for again shortly before it expires, not for each request."""
    for seconds, used in ((3600, ["Bearer token-1"] * 3), (200, [f"Bearer token-{n}" for n in (1, 2, 3)])):
        admin, server = scripted(answer(200, entry()))
        credential = Credential(seconds=seconds)
        admin._transport._requests._credential = _http_credential(credential)
        for _ in range(3):
            admin.get_queue("orders")
        assert [request.headers["authorization"] for request in server.requests] == used
        assert set(credential.scopes) == {"https://servicebus.azure.net/.default"}


def _http_credential(credential: object) -> Any:
    from oxbus._remote._credentials import request_credential  # noqa: PLC0415

    return request_credential(credential)


def test_credential_without_a_token() -> None:
    """Its error is the cause."""

    class Refusing:
        def get_token(self, *_: str) -> Token:
            raise LookupError("signed out")

    admin = ServiceBusAdministrationClient("bus.example.net", Refusing())
    with pytest.raises(ServiceBusAuthenticationError, match="signed out") as caught:
        admin.get_queue("orders")
    assert isinstance(caught.value.__cause__, LookupError)


def test_wrong_key(server: Server) -> None:
    """The server says what is wrong."""
    text = server.connection_string.replace(KEY, "another key")
    with (
        ServiceBusAdministrationClient.from_connection_string(text) as admin,
        pytest.raises(ServiceBusAuthenticationError, match=f"key name=`{KEY_NAME}`"),
    ):
        admin.create_queue("orders")


def test_key_without_the_right() -> None:
    """Another error than for a wrong key."""
    rule = AuthorizationRule(key_name="app", primary_key="a key of the tests", rights=["Send"])
    with (
        Namespace() as namespace,
        serve(namespace, rules=[rule]) as server,
        ServiceBusAdministrationClient.from_connection_string(
            f"Endpoint=sb://127.0.0.1:{server.port};SharedAccessKeyName=app;SharedAccessKey=a key of the tests;"
            "UseDevelopmentEmulator=true"
        ) as admin,
        pytest.raises(ServiceBusAuthorizationError, match="Manage"),
    ):
        admin.get_queue("orders")


def test_key_of_one_entity(server: Server, admin: ServiceBusAdministrationClient) -> None:
    """A token is for the path of its request, so the key of an entity manages that entity, and no other."""
    rule = AuthorizationRule(key_name="app", primary_key="a key of the tests", rights=["Manage"])
    admin.create_queue("orders", authorization_rules=[rule])
    admin.create_queue("other")
    text = (
        f"Endpoint=sb://127.0.0.1:{server.port};SharedAccessKeyName=app;SharedAccessKey=a key of the tests;"
        "EntityPath=orders;UseDevelopmentEmulator=true"
    )
    with ServiceBusAdministrationClient.from_connection_string(text) as own:
        own.update_queue(own.get_queue("orders"))
        with pytest.raises(ServiceBusError):
            own.get_queue("other")


def test_untrusted_certificate(server: Server, tmp_path: Path, waits: list[float]) -> None:
    """Without the issuer, or with another one, nothing is sent; the error names the option."""
    other, _ = make_certificate(tmp_path, "127.0.0.1")
    for trusted in (None, other):
        admin = ServiceBusAdministrationClient(
            f"localhost:{server.port}", (KEY_NAME, KEY), connection_verify=trusted, retry_total=1
        )
        with pytest.raises(ServiceBusConnectionError, match="connection_verify"):
            admin.create_queue("orders")
    assert waits == [0.8, 0.8]


def test_certificate_of_another_host(server: Server, certificate: Path, waits: list[float]) -> None:
    """The name is checked, too."""
    admin = ServiceBusAdministrationClient(
        "bus.example.net",
        (KEY_NAME, KEY),
        connection_verify=certificate,
        custom_endpoint_address=f"https://127.0.0.2:{server.port}",
        retry_total=0,
    )
    with pytest.raises(ServiceBusConnectionError):
        admin.get_queue("orders")
    assert waits == []


def test_verification_cannot_be_switched_off(tmp_path: Path) -> None:
    """Neither by False nor by a file without certificates."""
    for wrong, expected in ((False, TypeError), (tmp_path / "none.pem", FileNotFoundError), (__file__, ValueError)):
        with pytest.raises(expected):
            ServiceBusAdministrationClient("bus.example.net", ("n", "k"), connection_verify=wrong)  # type: ignore[arg-type]


def test_missing_certificates_are_named(tmp_path: Path) -> None:
    """The text was `[Errno 2] No such file or directory`, without the file and the option."""
    missing = tmp_path / "issuer.pem"
    with pytest.raises(FileNotFoundError, match=r"connection_verify.*issuer\.pem") as caught:
        ServiceBusAdministrationClient("bus.example.net", ("n", "k"), connection_verify=missing)
    assert caught.value.filename == str(missing)


def test_plain_and_encrypted_are_told_apart(scripted: Any) -> None:
    """TLS at a port without it: the error names the part of the connection string."""
    _, server = scripted(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    admin = ServiceBusAdministrationClient(f"127.0.0.1:{server.port}", ("n", "k"), retry_total=0)
    with pytest.raises(ServiceBusConnectionError, match="UseDevelopmentEmulator=true"):
        admin.get_queue("orders")


def test_custom_endpoint(server: Server, certificate: Path) -> None:
    """The client connects there; the namespace keeps its name."""
    endpoint = f"https://localhost:{server.port}"
    with ServiceBusAdministrationClient(
        "bus.example.net", (KEY_NAME, KEY), connection_verify=certificate, custom_endpoint_address=endpoint
    ) as admin:
        admin.create_queue("target")
        assert admin.create_queue("orders", forward_to="target").forward_to == "target"
    with pytest.raises(ValueError, match="custom_endpoint_address"):
        ServiceBusAdministrationClient("bus.example.net", ("n", "k"), custom_endpoint_address="http://")


def test_host_header_names_the_namespace(scripted: Any) -> None:
    """Also behind another endpoint."""
    _, server = scripted(answer(200, entry()))
    text = server.connection_string.replace(f"127.0.0.1:{server.port}", "bus.example.net")
    endpoint = f"127.0.0.1:{server.port}"
    with ServiceBusAdministrationClient.from_connection_string(text, custom_endpoint_address=endpoint) as admin:
        admin.get_queue("a/b")
    (request,) = server.requests
    assert (request.headers["host"], request.target) == ("bus.example.net", "/a/b?api-version=2024-05&enrich=true")
    assert "sr=http%3A%2F%2Fbus.example.net%2Fa%2Fb&" in request.headers["authorization"]


def test_api_version(scripted: Any) -> None:
    """It is sent with each request."""
    admin, server = scripted(answer(200, entry()), api_version="2021-05")
    admin.get_queue("orders")
    assert "api-version=2021-05" in server.requests[0].target


@pytest.mark.parametrize("secret", [{}, {"username": "me", "password": "pass"}], ids=["open", "with a password"])
def test_proxy(server: Server, certificate: Path, secret: dict[str, str]) -> None:
    """HTTPS through CONNECT, HTTP with whole URLs; the password goes to the proxy only."""
    with Proxy() as proxy:
        given = {"proxy_hostname": "127.0.0.1", "proxy_port": proxy.port, **secret}
        with ServiceBusAdministrationClient(
            f"localhost:{server.port}", (KEY_NAME, KEY), connection_verify=certificate, http_proxy=given
        ) as admin:
            admin.create_queue("orders")
        with ServiceBusAdministrationClient.from_connection_string(server.connection_string, http_proxy=given) as admin:
            assert admin.get_queue("orders").name == "orders"
        tunnel, plain = proxy.heads
    assert tunnel.startswith(f"CONNECT localhost:{server.port} ")
    assert plain.startswith(f"GET http://127.0.0.1:{server.port}/orders?")
    expected = "Proxy-Authorization: Basic bWU6cGFzcw==\r\n"
    assert [expected in head for head in (tunnel, plain)] == [bool(secret)] * 2
    assert "SharedAccessSignature" not in tunnel


def test_malformed_proxy() -> None:
    """Refused when the client is created, without showing its password."""
    for wrong in ({}, {"proxy_hostname": "h"}, {"proxy_hostname": "h", "proxy_port": 1, "pasword": "secret"}):
        with pytest.raises(ValueError, match="http_proxy must have") as caught:
            ServiceBusAdministrationClient("bus.example.net", ("n", "k"), http_proxy=wrong)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"retry_total": -1}, {"retry_mode": "never"}, {"read_timeout": 0}, {"connection_timeout": -1}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    """Refused when the client is created."""
    with pytest.raises(ValueError, match="must"):
        ServiceBusAdministrationClient("bus.example.net", ("n", "k"), **options)


def test_connection_is_used_again(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection serves several calls; one that was idle for long is not trusted."""
    admin, server = scripted(answer(200, entry()))
    for _ in range(3):
        admin.get_queue("orders")
    assert {request.connection for request in server.requests} == {0}
    monkeypatch.setattr(_http, "IDLE_SECONDS", 0)
    admin.get_queue("orders")
    assert server.requests[-1].connection == 1


def test_connection_that_the_server_closed(scripted: Any) -> None:
    """Creating an entity on a connection that the server closed since is no lost answer."""
    closing = answer(200, entry(), Connection="keep-alive").replace(b"Content-Length", b"content-length")
    admin, server = scripted(closing, answer(201, entry()))
    admin.get_queue("orders")
    deadline = time.monotonic() + 60
    idle = admin._transport._requests._http._idle[0][1]
    while not _http._is_closed(idle) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert admin.create_queue("orders").name == "orders"
    assert [request.connection for request in server.requests] == [0, 1]


def test_threads_share_a_client(admin: ServiceBusAdministrationClient) -> None:
    """Each call has its own connection while it runs."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: admin.create_queue(f"q{number:03}"), range(64)))
    assert [queue.name for queue in admin.list_queues()] == [f"q{number:03}" for number in range(64)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_client_works_in_a_forked_process(scripted: Callable[..., Any]) -> None:
    """With connections of its own: the parent's connection stays usable."""
    admin, server = scripted(answer(200, entry()))
    admin.get_queue("parent")
    # The scripted server serves one connection at a time, and the child's is served after the parent's.
    child = os.fork()
    if child == 0:
        try:
            admin.get_queue("child")
        finally:
            os._exit(0)
    admin.get_queue("parent")
    admin.close()
    os.waitpid(child, 0)
    seen = [(request.connection, request.target.partition("?")[0]) for request in server.requests]
    assert sorted(seen) == [(0, "/parent"), (0, "/parent"), (1, "/child")]
