# SPDX-License-Identifier: Apache-2.0
"""Access rules of bulk calls: the rights of shared access signatures, as for SDKs (B-046, B-416, B-455)."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.bulk import BulkClient
from oxbus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import replace_authorization_rules, serve
from signatures import KEY_NAME, connection_string, token

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import Namespace
    from oxbus.server import Server

SECRET = "a secret of the tests"  # noqa: S105 (it opens nothing else)
RIGHTS = ("Send", "Listen", "Manage")
QUEUE = "orders"
ROWS = pa.table({"body": [b"x"]})

CALLS: dict[str, tuple[str, Callable[[BulkClient], object]]] = {
    "send": ("Send", lambda it: it.send(QUEUE, ROWS)),
    "stage": ("Send", lambda it: it.stage(QUEUE, "s", ROWS)),
    "commit": ("Send", lambda it: it.commit_stages("sink", "query", 0, [])),
    "abort": ("Send", lambda it: it.abort_stages("sink", "query", 0, ["s"])),
    "receive": ("Listen", lambda it: it.receive(QUEUE, max_message_count=1)),
    "settle": ("Listen", lambda it: it.settle(QUEUE, [bytes(16)], "complete")),
    "peek": ("Listen", lambda it: it.peek(QUEUE, 0, 0)),
    "acquire": ("Listen", lambda it: it.acquire(QUEUE, "c")),
    "reserve": ("Listen", lambda it: it.reserve(QUEUE, "c", 1, 1, max_messages=1, max_bytes=1, lock_duration=60)),
    "plan": ("Listen", lambda it: it.plan(QUEUE, "c", 1, 1, lock_duration=60)),
    "read": ("Listen", lambda it: it.read(QUEUE, "c/1", 1, 0, 0, 1)),
    "renew": ("Listen", lambda it: it.renew(QUEUE, "c", 1, lock_duration=60)),
    "complete": ("Listen", lambda it: it.complete(QUEUE, "c", 1, 0)),
    "settle reserved": ("Listen", lambda it: it.settle_reserved(QUEUE, "c/1", 1, [1], "complete")),
    "reserved_sessions": ("Listen", lambda it: it.reserved_sessions(QUEUE, "c/1", 1, 0)),
    "reservations": ("Manage", lambda it: it.reservations(QUEUE)),
    "cancel": ("Manage", lambda it: it.cancel_reservation(QUEUE, "c")),
    "stages": ("Manage", lambda it: it.stages()),
    "discard": ("Manage", lambda it: it.discard_stage("s")),
}
"""The table of docs/bulk.md: the right that each call needs."""
WITHOUT_ENTITY = {"commit", "abort", "stages", "discard"}


def rule(name: str, *rights: str) -> AuthorizationRule:
    """A rule with the shared test key and the given rights."""
    return AuthorizationRule(key_name=name, primary_key=SECRET, rights=list(rights))


@pytest.fixture
def guarded(namespace: Namespace) -> Iterator[Server]:
    """A server with a key for each right, and a queue with separate keys."""
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue(QUEUE, authorization_rules=[rule(f"own-{right}", right) for right in RIGHTS])
    admin.create_queue("others")
    with serve(namespace, rules=[rule(right, right) for right in RIGHTS]) as server:
        yield server


def client_of(server: Server, name: str) -> BulkClient:
    """A client with one of the keys."""
    return BulkClient(connection_string(server.port, name, SECRET))


def may(call: Callable[[BulkClient], object], client: BulkClient) -> bool:
    """Whether the access rules allow a call; its result is ignored."""
    refusal = None
    try:
        call(client)
    except ServiceBusAuthorizationError as error:
        refusal = error
    except ServiceBusAuthenticationError:
        raise
    except (ServiceBusError, ValueError):
        return True
    if refusal is None:
        return True
    assert refusal.effect is None, "nothing was begun"
    assert SECRET not in str(refusal)
    assert "claim(s) are required" in str(refusal)
    return False


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("call", CALLS)
def test_each_call_needs_its_right(guarded: Server, call: str, right: str) -> None:
    """The table of rights, with keys of the namespace and of the entity; Manage includes the others."""
    needed, make = CALLS[call]
    with client_of(guarded, right) as client:
        assert may(make, client) == (right in {needed, "Manage"})
    with client_of(guarded, f"own-{right}") as client:
        if call not in WITHOUT_ENTITY:
            assert may(make, client) == (right in {needed, "Manage"})
            return
        # A token of the namespace needs a key of the namespace.
        with pytest.raises(ServiceBusAuthenticationError, match="no rule has that key name"):
            make(client)
    own = BulkClient(f"{connection_string(guarded.port, f'own-{right}', SECRET)};EntityPath={QUEUE}")
    with own, pytest.raises(ServiceBusAuthorizationError, match=f"the token is for `/{QUEUE}`"):
        make(own)


def test_table_has_every_call() -> None:
    """Each new call of the client must get its right here."""
    named = {"settle reserved": "settle_reserved", "commit": "commit_stages", "abort": "abort_stages"}
    named |= {"cancel": "cancel_reservation", "discard": "discard_stage"}
    calls = {name for name in vars(BulkClient) if not name.startswith("_")} - {"close", "endpoint", "describe"}
    assert {named.get(call, call) for call in CALLS} == calls


@pytest.mark.parametrize("right", RIGHTS)
def test_describe_shows_counts_only_with_listen_or_manage(guarded: Server, right: str) -> None:
    """Any right can describe an entity; its counts need Listen or Manage."""
    counts = {"active_messages", "starts", "ends"}
    with client_of(guarded, right) as client:
        shown = client.describe(QUEUE)
    assert (shown["kind"], shown["partitions"]) == ("queue", 1)
    assert counts & shown.keys() == (set() if right == "Send" else counts)
    with client_of(guarded, f"own-{right}") as client, pytest.raises(ServiceBusAuthenticationError):
        client.describe("others")


def test_key_of_an_entity_includes_its_subentities(guarded: Server, namespace: Namespace) -> None:
    """The key covers its dead letters and a topic's subscriptions; a token for a queue covers no other queue."""
    with client_of(guarded, "own-Listen") as client:
        assert len(client.receive(f"{QUEUE.upper()}/$deadletterqueue", max_message_count=1)) == 0
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_topic("news", authorization_rules=[rule("app", "Listen")])
    admin.create_subscription("news", "all")
    with client_of(guarded, "app") as client:
        assert len(client.receive("news/Subscriptions/all", max_message_count=1)) == 0
    signature = token(f"sb://h/{QUEUE}", "own-Listen", SECRET)
    signed = f"Endpoint=sb://127.0.0.1:{guarded.port};UseDevelopmentEmulator=true;SharedAccessSignature={signature}"
    with BulkClient(signed) as client:
        assert len(client.receive(QUEUE, max_message_count=1)) == 0
        with pytest.raises(ServiceBusAuthorizationError, match=r"the token is for `/orders`.*entity=`others`"):
            client.receive("others", max_message_count=1)


def test_only_valid_keys_learn_which_entities_are_missing(guarded: Server) -> None:
    """A wrong key gets the same answer for existing and missing entities."""
    with client_of(guarded, "Listen") as client, pytest.raises(MessagingEntityNotFoundError):
        client.peek("missing", 0, 0)
    with BulkClient(connection_string(guarded.port, "Listen", SECRET[::-1])) as client:
        for entity in (QUEUE, "missing"):
            with pytest.raises(ServiceBusAuthenticationError, match="invalid signature"):
                client.peek(entity, 0, 0)


@pytest.mark.parametrize("which", ["another key", "another name"])
def test_wrong_keys_are_refused_before_any_row_is_sent(server: Server, queue_name: str, which: str) -> None:
    """A large send fails at once; no text contains a key."""
    name, key = {"another key": (KEY_NAME, SECRET), "another name": ("flink", SECRET)}[which]

    asked = []

    def batches() -> Iterator[Any]:
        asked.append("the rows")
        yield from ROWS.to_batches()

    with BulkClient(connection_string(server.port, name, key)) as client:
        with pytest.raises(ServiceBusAuthenticationError) as caught:
            client.describe(queue_name)
        assert SECRET not in str(caught.value)
        with pytest.raises(ServiceBusAuthenticationError):
            client.send(queue_name, pa.RecordBatchReader.from_batches(ROWS.schema, batches()))
    assert asked == [], "the refusal came first"
    with BulkClient(server.connection_string) as client:
        assert client.describe(queue_name)["active_messages"] == 0


def test_each_rejection_names_its_reason(server: Server) -> None:
    """Status 401 in the form of bulk routes; for an old token, the text names the new kind."""
    refused = {
        None: ("MissingToken", "Unauthenticated"),
        "Basic x": ("an unknown scheme", "Unauthenticated"),
        "Bearer eyJ0": ("InvalidIssuer", "Unauthenticated"),
        "Bearer oxbus1.6b.1.00": ("oxbus1. are no longer accepted; use SharedAccessSignature", "Unauthenticated"),
        token("sb://h", "nobody"): ("no rule has that key name", "Unauthenticated"),
        token("sb://h", seconds=-1): ("ExpiredToken", "Unauthenticated"),
        token("sb://h/others"): ("InvalidAudience", "Unauthorized"),
    }
    for authorization, (text, kind) in refused.items():
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        headers = {} if authorization is None else {"authorization": authorization}
        connection.request("GET", "/$bulk/v1/stages", headers=headers)
        answer = connection.getresponse()
        error = json.loads(answer.read())["error"]
        connection.close()
        assert (answer.status, error["kind"], text in error["detail"]) == (401, kind, True), error
        assert answer.headers["www-authenticate"] == "SharedAccessSignature"


def test_keys_rotate_while_a_client_is_connected(guarded: Server) -> None:
    """New rules apply to bulk clients at once."""
    with client_of(guarded, "Listen") as client:
        client.peek(QUEUE, 0, 0)
        replace_authorization_rules(guarded, [rule("Send", "Send")])
        with pytest.raises(ServiceBusAuthenticationError):
            client.peek(QUEUE, 0, 0)


def test_keys_are_never_shown(namespace: Namespace) -> None:
    """Neither objects nor errors show a key; only the connection string contains it."""
    server = serve(namespace, rules=[rule("app", "Manage")])
    assert SECRET in server.connection_string
    with BulkClient(server.connection_string) as client:
        assert SECRET not in repr(server) + repr(client) + str(vars(type(client)))
        server.close()
        with pytest.raises(ServiceBusConnectionError) as caught:
            client.stages()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["$bulk", "$bulk/v1/send", "orders/$bulk", "$v1"])
def test_no_entity_can_hide_a_bulk_route(namespace: Namespace, name: str) -> None:
    """No name begins with `$`; `v1`, `health` and `console` are names like others."""
    admin = ServiceBusAdministrationClient(namespace)
    for create in (admin.create_queue, admin.create_topic):
        with pytest.raises(ValueError, match="not allowed"):
            create(name)
    for plain in ("v1", "health", "console", "bulk"):
        admin.create_queue(plain)
    with serve(namespace) as server, BulkClient(server.connection_string) as client:
        for plain in ("v1", "health", "console", "bulk"):
            assert client.send(plain, ROWS) == {0: 1}
