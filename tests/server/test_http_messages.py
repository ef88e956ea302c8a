# SPDX-License-Identifier: Apache-2.0
"""Messages over HTTP: the service's seven operations (B-440 … B-455)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.server import serve
from plain_http import BATCH, Http

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

NOTHING = "11111111-2222-3333-4444-555555555555"


def path_of(location: str) -> str:
    """The path of a `Location`."""
    return urlsplit(location).path


def test_send_stores_the_body_and_the_headers(ask: Http, client: ServiceBusClient, queue_name: str) -> None:
    """B-441, B-449, B-250: body, content type, broker properties in any order, every other header as a property."""
    properties = {
        "TimeToLive": 90,
        "Unheard": {"of": 1},
        "Label": "greeting",
        "MessageId": "m1",
        "CorrelationId": "c1",
        "To": "you",
        "ReplyTo": "me",
        "SessionId": "s1",
        "PartitionKey": "s1",
        "ReplyToSessionId": "r1",
        "ForcePersistence": True,
        "ViaPartitionKey": "v",
    }
    answer = ask(
        "POST",
        f"/{queue_name}/messages",
        "hello",
        Content_Type="text/plain",
        BrokerProperties=json.dumps(properties),
        Priority='"High"',
        Count="12",
        Price="1.5",
        Urgent="true",
        When='"Wed, 02 Jul 2014 01:32:27 GMT"',
    )
    assert (answer.status, answer.body) == (201, b"")
    with client.get_queue_receiver(queue_name) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=5)
    assert b"".join(message.body) == b"hello"
    assert (message.content_type, message.subject, message.message_id) == ("text/plain", "greeting", "m1")
    assert (message.correlation_id, message.to, message.reply_to) == ("c1", "you", "me")
    assert (message.session_id, message.partition_key, message.reply_to_session_id) == ("s1", "s1", "r1")
    assert message.time_to_live == timedelta(seconds=90)
    assert message.application_properties == {
        "priority": "High",
        "count": 12,
        "price": 1.5,
        "urgent": True,
        "when": datetime(2014, 7, 2, 1, 32, 27, tzinfo=UTC),
    }


def test_scheduled_message_waits_for_its_time(ask: Http, clock: ManualClock, queue_name: str) -> None:
    """B-449: `ScheduledEnqueueTimeUtc` as RFC 1123."""
    due = clock.now() + timedelta(hours=1)
    properties = json.dumps({"ScheduledEnqueueTimeUtc": due.strftime("%a, %d %b %Y %H:%M:%S GMT")})
    assert ask("POST", f"/{queue_name}/messages", "later", BrokerProperties=properties).status == 201
    assert ask("POST", f"/{queue_name}/messages/head?timeout=0").status == 204
    clock.advance(3600)
    assert ask("POST", f"/{queue_name}/messages/head?timeout=0").body == b"later"


def test_batch_is_one_send(ask: Http, client: ServiceBusClient, queue_name: str) -> None:
    """B-442: bodies, broker properties and user properties of each message; all or none are stored."""
    batch = [
        {"Body": "one", "BrokerProperties": {"Label": "a"}, "UserProperties": {"Priority": "High", "N": 1, "Z": None}},
        {"Body": "zwei ü"},
        {},
    ]
    answer = ask("POST", f"/{queue_name}/messages", json.dumps(batch), Content_Type=f"{BATCH}; charset=utf-8")
    assert answer.status == 201
    with client.get_queue_receiver(queue_name) as receiver:
        messages: list[Any] = []
        while len(messages) < 3:
            messages += receiver.receive_messages(3, max_wait_time=5)
    bodies = {b"".join(message.body): message for message in messages}
    assert set(bodies) == {b"one", "zwei ü".encode(), b""}
    assert bodies[b"one"].subject == "a"
    assert bodies[b"one"].application_properties == {"Priority": "High", "N": 1, "Z": None}


@pytest.mark.parametrize(
    "batch",
    [
        "{}",
        "[1]",
        '[{"Body": 1}]',
        '[{"Body": "a"}, {"Body": "b", "UserProperties": {"x": []}}]',
        json.dumps([{"BrokerProperties": {"SessionId": key}} for key in "ab"]),
    ],
)
def test_batch_that_cannot_be_stored_stores_nothing(
    ask: Http, admin: ServiceBusAdministrationClient, partitioned_queue: str, batch: str
) -> None:
    """B-442, B-079: invalid JSON, or messages of several keys."""
    assert ask("POST", f"/{partitioned_queue}/messages", batch, Content_Type=BATCH).status == 400
    assert admin.get_queue_runtime_properties(partitioned_queue).active_message_count == 0


def test_peek_lock_returns_the_message_and_the_location_of_its_lock(
    ask: Http, client: ServiceBusClient, queue_name: str
) -> None:
    """B-443, B-450, B-451: status, body, Location, broker properties, user properties."""
    message = ServiceBusMessage(
        b"body",
        subject="greeting",
        message_id="m1",
        content_type="text/plain",
        time_to_live=timedelta(seconds=90),
        application_properties={"priority": "High ü", "count": 12, "when": datetime(2014, 7, 2, 1, 32, 27, tzinfo=UTC)},
    )
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(message)
    answer = ask("POST", f"/{queue_name}/messages/head?timeout=5&api-version=2015-01")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (201, b"body", "text/plain")
    properties = answer.properties
    number, token = properties["SequenceNumber"], properties["LockToken"]
    assert (
        answer.headers["location"]
        == f"http://{ask.connection.host}:{ask.connection.port}/{queue_name}/messages/{number}/{token}"
    )
    assert {name: properties[name] for name in ("DeliveryCount", "Label", "MessageId", "State", "TimeToLive")} == {
        "DeliveryCount": 1,
        "Label": "greeting",
        "MessageId": "m1",
        "State": "Active",
        "TimeToLive": 90.0,
    }
    assert properties["EnqueuedSequenceNumber"] == number
    assert properties["EnqueuedTimeUtc"] == "Mon, 01 Mar 2100 12:00:00 GMT"
    assert properties["LockedUntilUtc"] == "Mon, 01 Mar 2100 12:01:00 GMT"
    assert (answer.headers["priority"], answer.headers["count"]) == ('"High \\u00fc"', "12")
    assert answer.headers["when"] == '"Wed, 02 Jul 2014 01:32:27 GMT"'


@pytest.mark.parametrize(("own", "shown"), [(None, 60.0), (30, 30.0), (3600, 60.0)], ids=["none", "shorter", "longer"])
def test_effective_time_to_live_is_shown(
    ask: Http, client: ServiceBusClient, make_queue: Callable[..., str], own: int | None, shown: float
) -> None:
    """B-247, B-250: the queue's default limits a message without a time to live, or with a longer one.

    The contract tests over AMQP found it: the value of the sender was shown, or none.
    """
    queue_name = make_queue(default_message_time_to_live=timedelta(seconds=60))
    message = ServiceBusMessage("x", time_to_live=None if own is None else timedelta(seconds=own))
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(message)
    answer = ask("POST", f"/{queue_name}/messages/head?timeout=5")
    assert answer.properties["TimeToLive"] == shown


def test_location_settles_unchanged(ask: Http, connect: Callable[..., Http], queue_name: str, client: Any) -> None:
    """B-445, B-446, B-447, B-448: renew, unlock, complete; from another connection, too."""
    with client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage("one"))
    first = ask("POST", f"/{queue_name}/messages/head?timeout=5")
    lock_path = path_of(first.headers["location"])
    assert connect()("POST", lock_path).status == 200, "renewed"
    assert ask("PUT", lock_path).status == 200, "unlocked"
    assert ask("DELETE", lock_path).status == 404, "the lock is gone"
    again = ask("POST", f"/{queue_name}/messages/head?timeout=5")
    assert again.properties["DeliveryCount"] == 2
    lock_path = path_of(again.headers["location"])
    assert connect()("DELETE", lock_path).status == 200, "completed"
    assert [ask(method, lock_path).status for method in ("POST", "PUT", "DELETE")] == [404, 404, 404]
    assert ask("POST", f"/{queue_name}/messages/head?timeout=0").status == 204


def test_path_may_be_built_from_the_message_id(ask: Http, queue_name: str) -> None:
    """B-448: as older clients do; with another id or number the message is not found, whatever the token."""
    sent = ask("POST", f"/{queue_name}/messages", "x", BrokerProperties='{"MessageId": "an id"}')
    assert sent.status == 201
    token = ask("POST", f"/{queue_name}/messages/head?timeout=5").properties["LockToken"]
    wrong = [f"/{queue_name}/messages/{reference}/{token}" for reference in ("another", "999", "an%20id2")]
    wrong += [f"/{queue_name}/messages/an%20id/{other}" for other in (NOTHING, "7", token[:-1])]
    assert [ask("DELETE", path).status for path in wrong] == [404] * 6
    assert ask("DELETE", f"/{queue_name}/messages/an%20id/{token}").status == 200


def test_lock_that_ended_is_not_found(ask: Http, clock: ManualClock, queue_name: str) -> None:
    """B-446: once the lock expires, another receiver may get the message."""
    ask("POST", f"/{queue_name}/messages", "x")
    lock_path = path_of(ask("POST", f"/{queue_name}/messages/head?timeout=5").headers["location"])
    clock.advance(120)
    answer = ask("DELETE", lock_path)
    assert (answer.status, b"SubCode=40400" in answer.body) == (404, True)


def test_receive_and_delete_removes_the_message(
    ask: Http, admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """B-444: 200 with the message and without a lock, 204 if there is none; no further message is removed."""
    for body in ("one", "two"):
        ask("POST", f"/{queue_name}/messages", body)
    first = ask("DELETE", f"/{queue_name}/messages/head?timeout=5")
    assert (first.status, "location" in first.headers, "LockToken" in first.properties) == (200, False, False)
    assert admin.get_queue_runtime_properties(queue_name).active_message_count == 1
    second = ask("DELETE", f"/{queue_name}/messages/head?timeout=5")
    assert {first.body, second.body} == {b"one", b"two"}
    assert ask("DELETE", f"/{queue_name}/messages/head?timeout=0").status == 204


def test_receive_waits_for_a_message(
    ask: Http, connect: Callable[..., Http], in_background: Callable[..., Any], queue_name: str
) -> None:
    """B-443: `timeout` limits the wait; a message that arrives ends it."""
    waiting = in_background(ask, "POST", f"/{queue_name}/messages/head?timeout=60")
    assert connect()("POST", f"/{queue_name}/messages", "awaited").status == 201
    assert waiting.result().body == b"awaited"


def test_connection_receives_from_its_cache(
    ask: Http,
    connect: Callable[..., Http],
    client: ServiceBusClient,
    partitioned_queue: str,
    key_in: Callable[..., str],
) -> None:
    """B-125, B-128, B-130, B-452: messages that a request locks in advance belong to its connection only."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition in range(3):
            sender.send_messages(ServiceBusMessage(str(partition), partition_key=key_in(partition)))
    first = ask("POST", f"/{partitioned_queue}/messages/head?timeout=0")
    assert first.status == 201
    other = connect()
    assert other("POST", f"/{partitioned_queue}/messages/head?timeout=0").status == 204, (
        "the other two are in the cache"
    )
    rest = [ask("POST", f"/{partitioned_queue}/messages/head?timeout=0") for _ in range(2)]
    assert {answer.body for answer in (first, *rest)} == {b"0", b"1", b"2"}
    assert [answer.properties["DeliveryCount"] for answer in (first, *rest)] == [1, 1, 1]


def test_cache_of_a_closed_connection_returns_after_lock_expiry(
    ask: Http,
    connect: Callable[..., Http],
    client: ServiceBusClient,
    clock: ManualClock,
    partitioned_queue: str,
    key_in: Callable[..., str],
) -> None:
    """B-129: nothing is lost; it counts as a delivery."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for partition in range(2):
            sender.send_messages(ServiceBusMessage(str(partition), partition_key=key_in(partition)))
    first = ask("POST", f"/{partitioned_queue}/messages/head?timeout=0")
    ask.connection.close()
    clock.advance(120)
    other = connect()
    found = [other("POST", f"/{partitioned_queue}/messages/head?timeout=5") for _ in range(2)]
    assert {answer.body for answer in found} == {b"0", b"1"}
    assert [answer.properties["DeliveryCount"] for answer in found] == [2, 2]
    assert other("DELETE", path_of(first.headers["location"])).status == 404


def test_plain_queue_is_not_cached(ask: Http, connect: Callable[..., Http], plain_queue: str) -> None:
    """B-127: without partitions there is no fetch in advance, for any connection."""
    for body in ("one", "two"):
        ask("POST", f"/{plain_queue}/messages", body)
    bodies = [connect()("POST", f"/{plain_queue}/messages/head?timeout=0").body for _ in range(2)]
    assert bodies == [b"one", b"two"]


def test_subscription_and_dead_letters_are_received_like_a_queue(
    ask: Http, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """B-443: `topic/subscriptions/name` in any case, and `$DeadLetterQueue` behind it."""
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    assert ask("POST", "/news/messages", "x").status == 201
    with client.get_subscription_receiver("news", "all") as receiver:
        receiver.dead_letter_message(
            receiver.receive_messages(max_wait_time=5)[0], reason="bad", error_description="no"
        )
    answer = ask("POST", "/news/subscriptions/all/$DeadLetterQueue/messages/head?timeout=5")
    assert (answer.status, answer.headers["deadletterreason"]) == (201, '"bad"')
    assert ask("DELETE", path_of(answer.headers["location"])).status == 200
    assert ask("POST", "/news/messages/head?timeout=0").status == 400, "a topic has no messages to receive"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "sub_code"),
    [
        ("POST", "/missing/messages", {}, 410, 41000),
        ("POST", "/missing/messages/head?timeout=0", {}, 410, 41000),
        ("DELETE", f"/missing/messages/1/{NOTHING}", {}, 410, 41000),
        ("POST", "/orders/messages", {"BrokerProperties": "{"}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": "[]"}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": '{"SessionId": 1}'}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": '{"TimeToLive": -1}'}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": '{"ScheduledEnqueueTimeUtc": "soon"}'}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": '{"SessionId": "a", "PartitionKey": "b"}'}, 400, 40000),
        ("POST", "/orders/messages", {"BrokerProperties": json.dumps({"MessageId": "x" * 129})}, 400, 40000),
        ("POST", "/orders/messages/head?timeout=-1", {}, 400, 40000),
        ("POST", "/orders/messages/head?timeout=soon", {}, 400, 40000),
        ("POST", "/orders/messages/head?timeout=3601", {}, 400, 40000),  # HTTP_WAIT_SECONDS_MAX
        ("POST", "/orders/messages?api-version=new", {}, 400, 40000),
        ("DELETE", f"/orders/messages/1/{NOTHING}", {}, 404, 40400),
    ],
)
def test_wrong_requests(
    ask: Http,
    admin: ServiceBusAdministrationClient,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
    sub_code: int,
) -> None:
    """B-441, B-443, B-463, B-464: each has its status, its sub code, and a text; nothing is stored."""
    admin.create_queue("orders", enable_partitioning=True)
    answer = ask(method, path, "x", **headers)
    assert (answer.status, f"SubCode={sub_code}." in answer.body.decode()) == (status, True)
    assert answer.body.startswith(f"<Error><Code>{status}</Code><Detail>".encode())
    assert admin.get_queue_runtime_properties("orders").active_message_count == 0


def test_sessions_are_not_received_over_http(ask: Http, admin: ServiceBusAdministrationClient) -> None:
    """B-440: sends to sessions work, receives do not."""
    admin.create_queue("orders", requires_session=True)
    assert ask("POST", "/orders/messages", "x", BrokerProperties='{"SessionId": "s"}').status == 201
    assert ask("POST", "/orders/messages", "x").status == 400
    assert ask("POST", "/orders/messages/head?timeout=0").status == 400


def test_version_before_partitions_is_rejected_for_partitioned_entities(
    ask: Http, partitioned_queue: str, admin: ServiceBusAdministrationClient
) -> None:
    """B-465: absent, October 2013 and later are accepted, older ones only without partitions."""
    admin.create_queue("plain")
    for version, status in (("", 201), ("?api-version=2013-10", 201), ("?api-version=2013-08", 400)):
        assert ask("POST", f"/{partitioned_queue}/messages{version}", "x").status == status
        assert ask("POST", f"/plain/messages{version}", "x").status == 201


def test_older_editions_need_the_version(open_namespace: Callable[..., Namespace]) -> None:
    """B-465, B-466: their documentation requires clients to send it."""
    namespace = open_namespace(profile="2019", tier="standard")
    from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- as the other fixture does

    ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=True)
    with serve(namespace) as server:
        ask = Http(server)
        assert ask("POST", "/orders/messages", "x").status == 400
        assert ask("POST", "/orders/messages?api-version=2013-10", "x").status == 201
        ask.connection.close()


@pytest.mark.parametrize(("tier", "limit"), [("standard", 256 << 10), ("premium", 1 << 20)])
def test_size_is_bounded_by_the_tier(open_namespace: Callable[..., Namespace], tier: str, limit: int) -> None:
    """B-454, B-055: 256 KB on Standard, 1 MB on Premium (HTTP_MESSAGE_BYTES_MAX_PREMIUM); 403 beyond it."""
    namespace = open_namespace(tier=tier)
    from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- as the other fixture does

    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue("orders")
    with serve(namespace) as server:
        ask = Http(server)
        assert ask("POST", "/orders/messages", bytes(limit - 1000)).status == 201
        refused = ask("POST", "/orders/messages", bytes(limit + 1))
        assert (refused.status, b"SubCode=40300" in refused.body) == (403, True)
        ask.connection.close()
    assert admin.get_queue_runtime_properties("orders").active_message_count == 1
