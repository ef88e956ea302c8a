# SPDX-License-Identifier: Apache-2.0
"""What the pages of the console show and change.

Source: docs/guide/console.md.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus.exceptions import ServiceBusError
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.management import SqlRuleFilter
from oxbus.testing import inject_fault
from reserving import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from console_http import Console
    from oxbus import Namespace, ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

DEAD = "/$deadletterqueue"


def send(client: ServiceBusClient, *messages: ServiceBusMessage, to: str = "orders") -> None:
    """Send messages to a queue or a topic."""
    sender = client.get_queue_sender(to)
    with sender:
        sender.send_messages(list(messages))


def dead_letter(client: ServiceBusClient, *, reason: str, description: str, count: int, queue: str = "orders") -> None:
    """Dead-letter the next messages of a queue."""
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(count, max_wait_time=5):
            receiver.dead_letter_message(message, reason=reason, error_description=description)


def until(read: Callable[[], Any], *, seconds: float = 60) -> Any:
    """Read until the answer is true."""
    end = time.monotonic() + seconds
    while not (found := read()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return found


def test_overview_searches_sorts_and_pages_on_the_server(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """At most a hundred rows a page, whatever there is."""
    for number in range(250):
        admin.create_queue(f"queue-{number:03}")
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(7)))
    page = until(lambda: (it := console.get("overview", sort="-active")["page"])["rows"][0]["active"] == 7 and it)
    assert page["rows"][0]["name"] == "orders"
    assert (len(page["rows"]), page["found"], page["pages"]) == (100, 251, 3)
    assert console.get("overview", sort="-active")["page"]["rows"][0]["oldest_ms"] is not None
    last = console.get("overview", page=3)["page"]
    assert [row["name"] for row in last["rows"]][-1] == "queue-249"
    found = console.get("overview", search="QUEUE-12")["page"]
    assert [row["name"] for row in found["rows"]] == [f"queue-12{digit}" for digit in range(10)]
    totals = console.get("overview")["totals"]
    assert (totals["entities"], totals["active"], totals["partitions"]) == (251, 7, 4)


def test_entity_shows_the_states_of_each_partition_and_health(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient, bus: Namespace
) -> None:
    """Ready, locked, deferred, scheduled and dead messages are counted apart."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(5)))
    with client.get_queue_sender("orders") as sender:
        sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
    with client.get_queue_receiver("orders") as receiver:
        _, deferred, dead = receiver.receive_messages(3, max_wait_time=5)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead)
        shown = console.get("entity", path="orders")
    sums = {
        state: sum(row[state] for row in shown["partitions"]) for state in shown["partitions"][0] if state != "reason"
    }
    assert [sums[it] for it in ("ready", "locked", "deferred", "scheduled", "dead")] == [2, 1, 1, 1, 1]
    inject_fault(bus, 2, "unavailable")
    rows = console.get("entity", path="orders")["partitions"]
    assert [row["is_reached"] for row in rows] == [True, True, False, True]
    assert rows[2]["reason"]


def test_settings_have_limits_and_are_changed_one_at_a_time(
    console: Console, admin: ServiceBusAdministrationClient
) -> None:
    """A value outside the limits is refused with the limit."""
    admin.create_queue("orders")
    settings = {it["name"]: it for it in console.get("entity", path="orders")["settings"]["editable"]}
    assert settings["lock_duration"]["min"] < settings["lock_duration"]["value"] < settings["lock_duration"]["max"]
    console.post("settings", path="orders", name="lock_duration", value=30_000)
    console.post("settings", path="orders", name="default_message_time_to_live", value=3_600_000)
    console.post("settings", path="orders", name="status", value="SendDisabled")
    console.post("settings", path="orders", name="user_metadata", value="<b>")
    queue = admin.get_queue("orders")
    assert (queue.lock_duration, queue.default_message_time_to_live) == (timedelta(seconds=30), timedelta(hours=1))
    assert (queue.status, queue.user_metadata) == ("SendDisabled", "<b>")
    answer = console.try_post("settings", path="orders", name="lock_duration", value=1)
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert b"lock_duration" in answer.body
    for name, value in [("requires_session", True), ("lock_duration", "x"), ("status", "Bad"), ("nothing", 1)]:
        assert console.try_post("settings", path="orders", name=name, value=value).status == HTTPStatus.BAD_REQUEST


def test_rules_are_tested_on_peeked_messages_and_changed(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """A test changes nothing, needs no right to manage and locks nothing."""
    path = "news/Subscriptions/all"
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    with client.get_topic_sender("news") as sender:
        for number in range(10):
            message = ServiceBusMessage("x", subject="even" if number % 2 == 0 else "odd")
            message.application_properties = {"number": number}
            sender.send_messages(message)
    test = {"path": path, "name": "t"}
    filters: list[tuple[dict[str, Any], int]] = [
        ({"kind": "sql", "expression": "number > 6"}, 3),
        ({"kind": "correlation", "correlation": [["subject", "odd"]]}, 5),
        ({"kind": "true"}, 10),
        ({"kind": "false"}, 0),
    ]
    for filter_, selected in filters:
        found = console.post("rule-test", **test, **filter_)
        assert (found["selected"], found["looked_at"]) == (selected, 10)
    assert console.post("rule-test", **test, kind="sql", expression="number / 0 = 1")["failed"]
    answer = console.try_post("rule-test", **test, kind="sql", expression="number >")
    assert answer.status == HTTPStatus.BAD_REQUEST
    console.post("rule", path=path, name="big", kind="sql", expression="number > 6", action="SET a = 1")
    console.post("rule", path=path, name="big", kind="sql", expression="number > 7", is_update=True)
    console.post("rule-delete", path=path, name="$Default")
    (rule,) = admin.list_rules("news", "all")
    assert isinstance(rule.filter, SqlRuleFilter)
    assert (rule.name, rule.filter.sql_expression) == ("big", "number > 7")
    (shown,) = console.get("entity", path=path)["rules"]
    assert shown["filter"] == {"kind": "sql", "expression": "number > 7", "parameters": []}


def test_looking_locks_nothing_and_filters(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """By partition, session, property, text and time; deliveries stay uncounted."""
    admin.create_queue("orders", enable_partitioning=True, requires_session=True)
    for number in range(120):
        message = ServiceBusMessage(f"body {number}", session_id=f"s{number % 3}")
        message.application_properties = {"number": number, "color": "red" if number < 5 else "blue"}
        send(client, message)
    first = console.get("messages", path="orders")
    assert len(first["messages"]) == 50
    numbers = [it["number"] for it in first["messages"]]
    page = first
    while page["next"] is not None:
        page = console.get("messages", path="orders", **{"from": page["next"]})
        numbers += [it["number"] for it in page["messages"]]
    assert len(numbers) == len(set(numbers)) == 120

    def found(**filters: Any) -> list[str]:
        return [it["preview"] for it in console.get("messages", path="orders", **filters)["messages"]]

    assert len(found(session="s1")) == 40
    assert found(text="body 119") == ["body 119"]
    assert sorted(found(property="color=red")) == [f"body {number}" for number in range(5)]
    assert found(property="number=7") == ["body 7"]
    assert found(property="missing") == []
    now = first["now_ms"]
    assert len(found(from_ms=now - 600_000, to_ms=now + 1)) == 50
    assert found(from_ms=now + 600_000) == []
    partition = first["messages"][0]["partition"]
    assert {it["partition"] for it in console.get("messages", path="orders", partition=partition)["messages"]} == {
        partition
    }
    with client.get_queue_receiver("orders", session_id="s1") as receiver:
        (received,) = receiver.receive_messages(1, max_wait_time=5)
        assert received.delivery_count == 0


def test_a_message_has_all_its_properties_and_its_bytes(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """Numbers beyond those of JavaScript are text; bodies are bytes."""
    admin.create_queue("orders", enable_partitioning=True)
    body = bytes(range(256))
    message = ServiceBusMessage(body, subject="s", correlation_id="c", message_id="m", content_type="application/x")
    message.application_properties = {"big": 2**60, "text": "t", "flag": True, "half": 0.5, "bytes": b"\x00\xff"}
    send(client, message)
    (brief,) = console.get("messages", path="orders")["messages"]
    shown = console.get("message", path="orders", number=brief["number"])
    assert base64.b64decode(shown["body"]) == body
    assert {it["name"]: (it["kind"], it["value"]) for it in shown["properties"]} == {
        "big": ("integer", str(2**60)),
        "text": ("text", "t"),
        "flag": ("boolean", "true"),
        "half": ("double", "0.5"),
        "bytes": ("bytes", "00ff"),
    }
    assert (shown["subject"], shown["correlation_id"], shown["message_id"]) == ("s", "c", "m")
    missing = console.ask("GET", f"/$console/api/message?path=orders&number={int(brief['number']) + 1}")
    assert missing.status == HTTPStatus.NOT_FOUND


def test_a_test_message_is_sent(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """With its properties, in their types."""
    admin.create_queue("orders")
    properties = [{"name": "n", "kind": "integer", "value": "7"}, {"name": "t", "kind": "text", "value": "x"}]
    body = base64.b64encode(b"hello").decode()
    console.post("send", path="orders", body=body, subject="s", time_to_live_ms=60_000, properties=properties)
    with client.get_queue_receiver("orders") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=5)
    assert (str(message), message.subject, message.time_to_live) == ("hello", "s", timedelta(minutes=1))
    assert message.application_properties == {"n": 7, "t": "x"}
    wrong = [{"name": "n", "kind": "integer", "value": "seven"}]
    assert console.try_post("send", path="orders", body=body, properties=wrong).status == HTTPStatus.BAD_REQUEST


def test_dead_letters_are_grouped_by_reason_and_exception(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """Descriptions that differ only in numbers are one group."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(6)))
    for number in range(4):
        dead_letter(client, reason="bad", description=f"ValueError: order {number}\nline 2", count=1)
    dead_letter(client, reason="bad", description="KeyError", count=1)
    dead_letter(client, reason="it's", description="", count=1)
    shown = console.get("dead-letters", path="orders")
    groups = {(it["reason"], it["exception"]): it["count"] for it in shown["groups"]}
    assert groups == {("bad", "ValueError: order #"): 4, ("bad", "KeyError"): 1, ("it's", ""): 1}
    assert shown["total"] == 6
    assert all(group["samples"] for group in shown["groups"])


def test_resubmit_keeps_to_its_rate_and_shows_its_progress(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """Only those with the reason are moved; the job counts up and ends."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(30)))
    dead_letter(client, reason="it's", description="", count=25)
    with client.get_queue_receiver("orders") as receiver:
        left = receiver.receive_messages(30, max_wait_time=5)
        for message in left:
            receiver.dead_letter_message(message, reason="other")
    began = time.monotonic()
    shown = console.get("dead-letters", path="orders")
    wanted = next(it["count"] for it in shown["groups"] if it["reason"] == "it's")
    job = console.post("resubmit", path="orders", reason="it's", per_second=20)["job"]

    def ended() -> Any:
        (it,) = (it for it in console.get("jobs")["jobs"] if it["id"] == job)
        return not it["is_running"] and it

    done = until(ended)
    assert (done["done"], done["end"]) == (wanted, None)
    assert time.monotonic() - began >= (wanted - 2) / 20, "at most 20 a second"
    assert console.get("dead-letters", path="orders")["total"] == 30 - wanted
    job = console.post("resubmit", path="orders", per_second=1)["job"]
    console.post("job-cancel", id=job)
    assert until(ended)["end"]
    assert console.try_post("resubmit", path="orders", per_second=0).status == HTTPStatus.BAD_REQUEST
    assert console.try_post("resubmit", path="orders", filter="a >").status == HTTPStatus.BAD_REQUEST


def test_purge_needs_the_typed_name(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """A purge removes the dead letters with a reason, or all."""
    admin.create_queue("orders")
    send(client, *(ServiceBusMessage(str(number)) for number in range(5)))
    dead_letter(client, reason="a", description="", count=2)
    dead_letter(client, reason="b", description="", count=3)
    path = "orders" + DEAD
    for confirmation in ("", "Orders", "order"):
        answer = console.try_post("purge", path=path, confirmation=confirmation)
        assert answer.status == HTTPStatus.BAD_REQUEST
    assert console.post("purge", path=path, reason="b", confirmation="orders") == {"count": 3}
    assert console.get("dead-letters", path="orders")["total"] == 2
    assert console.post("purge", path=path, confirmation="orders") == {"count": 2}


def test_edited_dead_letter_replaces_the_original(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """The copy is sent, and only that dead letter is removed."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(3)))
    dead_letter(client, reason="bad", description="", count=3)
    brief = console.get("messages", path="orders" + DEAD)["messages"][1]
    body = base64.b64encode(b"mended").decode()
    sent = console.post("send-edited", path="orders" + DEAD, number=brief["number"], body=body)
    assert sent["removed"] == 1
    assert console.get("dead-letters", path="orders")["total"] == 2
    with client.get_queue_receiver("orders") as receiver:
        assert [str(it) for it in receiver.receive_messages(9, max_wait_time=1)] == ["mended"]
    again = console.try_post("send-edited", path="orders" + DEAD, number=brief["number"], body=body)
    assert again.status == HTTPStatus.NOT_FOUND


def test_sessions_page_with_holder_and_end_of_the_lock(
    console: Console, admin: ServiceBusAdministrationClient, server: Server, client: ServiceBusClient
) -> None:
    """The holder is the link, with the address of its connection."""
    admin.create_queue("orders", enable_partitioning=True, requires_session=True)
    for number in range(150):
        send(client, ServiceBusMessage("x", session_id=f"s{number:03}"))
    send(client, ServiceBusMessage("x", session_id="s007"))
    page = console.get("sessions", path="orders", sort="-messages")["page"]
    assert (len(page["rows"]), page["found"]) == (100, 150)
    assert (page["rows"][0]["id"], page["rows"][0]["messages"]) == ("s007", 2)
    with (
        SdkClient.from_connection_string(server.connection_string) as sdk,
        sdk.get_queue_receiver("orders", session_id="s003") as receiver,
    ):
        receiver.session.set_state(b"state")
        (held,) = console.get("sessions", path="orders", state="held")["page"]["rows"]
        assert (held["id"], held["holder_connection"]["peer"].split(":")[0]) == ("s003", "127.0.0.1")
        assert held["state_set_ms"] is not None
        assert held["until_ms"] > console.get("sessions", path="orders")["now_ms"]
        (found,) = console.get("sessions", path="orders", search="S003")["page"]["rows"]
        assert found["holder"]
    admin.create_queue("plain")
    assert console.ask("GET", "/$console/api/sessions?path=plain").status == HTTPStatus.BAD_REQUEST


def test_locks_name_the_connection_that_holds_a_message(
    console: Console, admin: ServiceBusAdministrationClient, server: Server, client: ServiceBusClient
) -> None:
    """A message that a receiver of this process holds has no connection."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(4)))
    with (
        SdkClient.from_connection_string(server.connection_string) as sdk,
        sdk.get_queue_receiver("orders") as remote,
        client.get_queue_receiver("orders") as own,
    ):
        (held,) = remote.receive_messages(1, max_wait_time=5)
        (other,) = own.receive_messages(1, max_wait_time=5)
        shown = console.get("locks", path="orders")
        locked = {int(it["number"]): it["holder"] for it in shown["locked"]["messages"]}
        assert set(locked) == {held.sequence_number, other.sequence_number}
        assert locked[other.sequence_number or 0] is None
        assert locked[held.sequence_number or 0]["peer"].startswith("127.0.0.1:")
        (holder,) = console.get("locks")["holders"]
        assert (holder["entity"], holder["unsettled"], holder["held"]) == ("orders", 1, [str(held.sequence_number)])
        assert "python" in holder["sdk"].lower()
        remote.complete_message(held)
        until(lambda: not console.get("locks", path="orders")["holders"][0]["held"])


def test_spark_consumers_and_staged_sends(
    console: Console, admin: ServiceBusAdministrationClient, bus: Namespace, client: ServiceBusClient
) -> None:
    """A reservation is what Spark calls a batch."""
    admin.create_queue("orders", enable_partitioning=True)
    send(client, *(ServiceBusMessage(str(number)) for number in range(4)))
    consumer = Consumer(bus, "orders", "query")
    consumer.reserve(1, 3)
    for parameters in ({}, {"path": "orders"}):
        (shown,) = console.get("locks", **parameters)["reservations"]
        assert (shown["consumer"], shown["reservation"], shown["messages"]) == ("query", 1, 3)
        assert shown["is_live"]


def test_connections_tell_their_sdk_links_and_counts(
    console: Console, admin: ServiceBusAdministrationClient, server: Server
) -> None:
    """And the refusals of the last hour, with their reasons."""
    admin.create_queue("orders")
    with (
        SdkClient.from_connection_string(server.connection_string, retry_total=0) as sdk,
        sdk.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(SdkMessage("x"))
        (shown,) = console.get("connections")["connections"]
        assert "azsdk-python-servicebus" in shown["sdk"]
        assert shown["messages_in"] == 1
        (link,) = (it for it in shown["links"] if it["role"] == "send")
        assert (link["entity"], link["messages"]) == ("orders", 1)
        with pytest.raises(ServiceBusError), sdk.get_queue_receiver("missing") as receiver:
            receiver.receive_messages(max_wait_time=1)
    refusals = console.get("connections")["refusals"]
    assert any(it["reason"] == "amqp:not-found" and "missing" in it["detail"] for it in refusals), refusals
    until(lambda: console.get("connections")["total"] == 0)


def test_partition_is_healed(console: Console, bus: Namespace) -> None:
    """The page shows the fault, and heals it."""
    inject_fault(bus, 1, "unavailable")
    rows = console.get("partitions")["partitions"]
    assert [row["fault"] for row in rows] == [None, "unavailable", None, None]
    assert rows[1]["can_heal"]
    console.post("heal", partition=1)
    assert not any(row["fault"] for row in console.get("partitions")["partitions"])
    assert console.try_post("heal", partition=99).status == HTTPStatus.BAD_REQUEST


def test_resources_are_live(console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
    """An event comes at once, and another one when something changed; signing out ends the stream."""
    admin.create_queue("orders")
    connection, stream = console.live("entity?path=orders")
    assert (stream.status, stream.getheader("content-type")) == (HTTPStatus.OK, "text/event-stream")

    def event() -> Any:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line
        return json.loads(line[6:])

    def ready(shown: Any) -> int:
        return sum(row["ready"] for row in shown["partitions"])

    assert ready(event()) == 0
    send(client, ServiceBusMessage("x"))
    until(lambda: ready(event()) == 1)
    console.post("sign-out")
    assert stream.read() is not None, "it ended"
    connection.close()


def test_rates_come_from_the_counters_of_the_metrics(
    console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """Samples are taken every five seconds, of entities whose counters moved."""
    admin.create_queue("orders")
    admin.create_queue("idle")
    send(client, *(ServiceBusMessage(str(number)) for number in range(100)))
    with client.get_queue_receiver("orders", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        receiver.receive_messages(40, max_wait_time=5)
    samples = until(lambda: (it := console.get("history", path="orders")["short"]) and it[-1]["depth"] == 60 and it)
    assert (samples[-1]["sent"], samples[-1]["received"]) == (100, 40)
    assert console.get("history")["short"][-1]["sent"] == 100
    assert console.get("history", path="idle")["short"] == []


def test_a_missing_entity_is_told(console: Console) -> None:
    """With its name, as JSON."""
    for resource in ("entity", "messages", "dead-letters", "sessions"):
        answer = console.ask("GET", f"/$console/api/{resource}?path=missing")
        assert answer.status == HTTPStatus.NOT_FOUND
        assert "missing" in json.loads(answer.body)["error"]
    assert console.ask("GET", "/$console/api/nothing").status == HTTPStatus.NOT_FOUND
