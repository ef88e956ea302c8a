# SPDX-License-Identifier: Apache-2.0
"""Access control: shared access signatures, rules of the namespace and of entities (B-046, B-416, B-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
from oxbus import Namespace
from oxbus.exceptions import ServiceBusQuotaExceededError
from oxbus.management import AccessRights, AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import authorization_rules, replace_authorization_rules, serve
from plain_http import Http
from signatures import KEY, KEY_NAME, token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.server import Server

SECRET = "a secret of the tests"  # noqa: S105 (it opens nothing else)


@pytest.mark.parametrize(
    ("made", "sub_code", "word"),
    [
        (lambda: None, 40102, "MissingToken"),
        (lambda: "Basic abc", 40102, "MalformedToken"),
        (lambda: "Bearer eyJ0", 40102, "InvalidIssuer"),
        (lambda: "Bearer oxbus1.6b.1.00", 40102, "oxbus1. are no longer accepted; use SharedAccessSignature"),
        (lambda: token("sb://h", "nobody"), 40103, "key name"),
        (lambda: token("sb://h", KEY_NAME, "another key, wrong"), 40103, "invalid signature"),
        (lambda: token("sb://h", seconds=-1), 40103, "ExpiredToken"),
        (lambda: token("sb://h/others"), 40103, "InvalidAudience"),
    ],
    ids=["missing", "scheme", "bearer", "old", "policy", "key", "expired", "audience"],
)
def test_each_rejection_names_its_reason(
    ask: Http, admin: ServiceBusAdministrationClient, made: Callable[[], str | None], sub_code: int, word: str
) -> None:
    """B-455, B-464: 401 with a specific sub code, for messages and for entities; no text contains a key."""
    admin.create_queue("orders")
    # Created here: a token expires before a run of all tests ends.
    ask.token = made()
    for method, path in (("POST", "/orders/messages"), ("GET", "/orders?api-version=2021-05")):
        answer = ask(method, path, "x")
        text = answer.body.decode()
        assert (answer.status, f"SubCode={sub_code}." in text, word in text) == (401, True, True), text
        assert KEY not in text
    assert admin.get_queue_runtime_properties("orders").active_message_count == 0


@pytest.mark.parametrize(
    ("right", "sends", "receives", "manages"),
    [("Send", 201, 401, 401), ("Listen", 401, 201, 401), ("Manage", 201, 201, 200)],
)
def test_rights_of_a_key_of_an_entity(
    ask: Http,
    connect: Callable[..., Http],
    admin: ServiceBusAdministrationClient,
    right: str,
    sends: int,
    receives: int,
    manages: int,
) -> None:
    """B-046, B-416: Send, Listen and Manage apply only to their entity; settling a message needs Listen."""
    rule = AuthorizationRule(key_name="app", primary_key=SECRET, rights=[right])
    admin.create_queue("orders", authorization_rules=[rule])
    admin.create_queue("others")
    ask("POST", "/orders/messages", "there before")
    app = connect(name="app", key=SECRET)
    assert app("POST", "/orders/messages", "x").status == 401, "a token of the namespace needs a key of the namespace"
    app.token = token("sb://any.host/Orders", "app", SECRET)
    assert app("POST", "/orders/messages", "x").status == sends
    assert app("POST", "/orders/messages/head?timeout=0").status == receives
    assert app("GET", "/orders").status == manages
    assert app("POST", "/others/messages", "x").status == 401
    assert app("GET", "/$Resources/queues").status == 401
    app.token = token("sb://any.host/others", "app", SECRET)
    assert app("POST", "/others/messages", "x").status == 401


def test_key_of_a_topic_covers_its_subscriptions(ask: Http, admin: ServiceBusAdministrationClient) -> None:
    """B-416: a token for an entity also covers its subentities."""
    admin.create_topic(
        "news", authorization_rules=[AuthorizationRule(key_name="app", primary_key=SECRET, rights=["Listen"])]
    )
    admin.create_subscription("news", "all")
    ask("POST", "/news/messages", "x")
    for address in ("sb://h/news", "sb://h/news/subscriptions/all"):
        ask.token = token(address, "app", SECRET)
        answer = ask("POST", "/news/Subscriptions/all/messages/head?timeout=0")
        assert answer.status == 201
        lock_path = urlsplit(answer.headers["location"]).path
        assert ask("PUT", lock_path).status == 200


def test_keys_rotate_while_clients_are_connected(namespace: Namespace, admin: ServiceBusAdministrationClient) -> None:
    """B-046: the secondary key works while the primary one is replaced; a deleted rule gives no access."""
    admin.create_queue("orders")
    rule = AuthorizationRule(key_name="app", primary_key=SECRET, secondary_key=SECRET + "2", rights=["Send"])
    with serve(namespace, rules=[rule]) as server:

        def status(key: str, name: str = "app") -> int:
            connection = Http(server, name=name, key=key)
            answer = connection("POST", "/orders/messages", "x")
            connection.connection.close()
            return answer.status

        assert [status(SECRET), status(SECRET + "2"), status(KEY, KEY_NAME)] == [201, 201, 401]
        replace_authorization_rules(
            server, [AuthorizationRule(key_name="app", primary_key=SECRET + "3", rights=["Send"])]
        )
        assert [status(SECRET), status(SECRET + "2"), status(SECRET + "3")] == [401, 201, 201]
        (held,) = authorization_rules(server)
        assert (held.primary_key, held.secondary_key, held.rights) == (SECRET + "3", SECRET + "2", ["Send"])
        assert held.created_at_utc is not None
        assert held.modified_at_utc is not None
        assert held.created_at_utc <= held.modified_at_utc
        replace_authorization_rules(server, [AuthorizationRule(key_name="other", rights=["Send"])])
        assert status(SECRET + "3") == 401
        (made,) = authorization_rules(server)
        assert made.primary_key
        assert made.secondary_key
        assert made.primary_key != made.secondary_key
        assert status(made.primary_key, "other") == 201
        with pytest.raises(ValueError, match="gives no right"):
            replace_authorization_rules(server, [AuthorizationRule(key_name="app", primary_key=SECRET, rights=[])])
        many = [AuthorizationRule(key_name=f"r{number}", rights=["Send"]) for number in range(13)]
        with pytest.raises(ServiceBusQuotaExceededError, match="12"):
            replace_authorization_rules(server, many)
        assert status(made.primary_key, "other") == 201, "the rejected update changed nothing"


def of_orders(admin: ServiceBusAdministrationClient) -> list[AuthorizationRule]:
    """The rules of the queue `orders`."""
    return list(admin.get_queue("orders").authorization_rules or [])


def test_rules_of_an_entity_are_stored(admin: ServiceBusAdministrationClient) -> None:
    """B-046: an update with another list replaces them; omitted keys are generated once."""
    made = admin.create_queue(
        "orders", authorization_rules=[AuthorizationRule(key_name="app", rights=[AccessRights.SEND])]
    )
    (rule,) = of_orders(admin)
    assert (rule.type, rule.claim_type, rule.claim_value) == (
        "SharedAccessAuthorizationRule",
        "SharedAccessKey",
        "None",
    )
    made.max_delivery_count = 3
    admin.update_queue(made)
    assert of_orders(admin)[0].primary_key == rule.primary_key
    made.authorization_rules = [AuthorizationRule(key_name="app", rights=[AccessRights.LISTEN, AccessRights.LISTEN])]
    admin.update_queue(made)
    (changed,) = of_orders(admin)
    assert (changed.primary_key, changed.rights) == (rule.primary_key, ["Listen"])
    made.authorization_rules = []
    admin.update_queue(made)
    assert admin.get_queue("orders").authorization_rules == []
    wrong = AuthorizationRule(key_name="app", primary_key="short", rights=["Send"])
    with pytest.raises(ValueError, match="keys of 13 to 256"):
        admin.create_queue("others", authorization_rules=[wrong])
    with pytest.raises(ValueError, match="access right"):
        admin.create_queue("others", authorization_rules=[AuthorizationRule(key_name="app", rights=["Everything"])])


def test_public_server_needs_explicit_rules(namespace: Namespace) -> None:
    """The development key is public, so the server accepts it on loopback only."""
    with pytest.raises(ValueError, match="its own authorization rules"):
        serve(namespace, host="0.0.0.0")  # noqa: S104 (an error here)
    rule = AuthorizationRule(key_name="app", primary_key=SECRET, rights=["Send"])
    with serve(namespace, host="0.0.0.0", rules=[rule]) as server:  # noqa: S104 (with a key)
        assert server.connection_string.startswith(f"Endpoint=sb://localhost:{server.port};SharedAccessKeyName=app;")
        ask = Http(server)
        ask.connection.host = "127.0.0.1"
        assert ask("GET", "/metrics").status == 401, "names of entities need a token"
        ask.connection.close()


def test_sdk_learns_that_its_key_is_wrong(server: Server, certificate: Path) -> None:
    """B-463: 401 is `ClientAuthenticationError`, at once."""
    wrong = server.connection_string.replace(KEY, "another key, wrong")
    with (
        SdkAdministrationClient.from_connection_string(wrong, connection_verify=str(certificate)) as sdk,
        pytest.raises(ClientAuthenticationError, match="invalid signature"),
    ):
        sdk.get_queue("orders")


def test_forwarding_needs_the_send_right_of_the_destination(ask: Http, admin: ServiceBusAdministrationClient) -> None:
    """A key that manages one entity cannot send to another one, unless the request has a token for that one."""
    rule = AuthorizationRule(key_name="app", primary_key=SECRET, rights=["Manage"])
    admin.create_queue("orders", authorization_rules=[rule])
    admin.create_queue("others")
    body = (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content><QueueDescription>'
        "<ForwardTo>sb://h/others</ForwardTo></QueueDescription></content></entry>"
    )
    ask.token = token("sb://h/orders", "app", SECRET)
    assert ask("PUT", "/orders", body, If_Match="*").status == 401
    allowed = token("sb://h/others")
    assert ask("PUT", "/orders", body, If_Match="*", ServiceBusSupplementaryAuthorization=allowed).status == 200
    assert admin.get_queue("orders").forward_to == "others"


def test_rules_of_an_entity_survive_a_restart(tmp_path: Path) -> None:
    """B-046: the catalog stores them with their keys, and they apply after a restart."""
    rule = AuthorizationRule(key_name="app", primary_key=SECRET, rights=["Send"])
    with Namespace(tmp_path / "bus") as namespace:
        made = ServiceBusAdministrationClient(namespace).create_queue("orders", authorization_rules=[rule])
    with Namespace(tmp_path / "bus") as namespace, serve(namespace) as server:
        assert of_orders(ServiceBusAdministrationClient(namespace)) == made.authorization_rules
        app = Http(server)
        app.token = token("sb://h/orders", "app", SECRET)
        assert app("POST", "/orders/messages", "x").status == 201
        app.connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/$Resources/Queues",
        "/$Resources/Topics",
        "/$namespaceinfo",
        "/orders",
        "/news/Subscriptions",
        "/news/Subscriptions/all",
        "/news/Subscriptions/all/Rules",
        "/news/Subscriptions/all/Rules/$Default",
    ],
)
def test_token_for_one_request_is_enough(ask: Http, admin: ServiceBusAdministrationClient, path: str) -> None:
    """B-455: the SDK of Go signs the address of each request; lists and rules rejected its token as too narrow."""
    admin.create_queue("orders")
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    ask.token = token(f"https://localhost:5671{path}?api-version=2021-05")
    assert ask("GET", f"{path}?api-version=2021-05").status == 200
    others = f"https://localhost:5671{path}/more"
    ask.token = token(others)
    assert ask("GET", f"{path}?api-version=2021-05").status == 401
