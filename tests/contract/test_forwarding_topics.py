# SPDX-License-Identifier: Apache-2.0
"""Forwarding to topics and from subscriptions (B-086, B-113, B-242, B-331, B-337)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus
import pytest
from oxbus.exceptions import ServiceBusError
from oxbus.management import SqlRuleAction, SqlRuleFilter, TrueRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

    Take = Callable[..., list[ServiceBusReceivedMessage]]


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts."""
    return [str(message) for message in messages]


def test_message_id_that_is_the_key_at_a_topic(
    admin: ServiceBusAdministrationClient, send_to: Callable[..., None], take_from: Take
) -> None:
    """The key at the topic is kept by its copies (B-086, B-353)."""
    admin.create_queue("to", enable_partitioning=True)
    admin.create_topic("news", enable_partitioning=True, requires_duplicate_detection=True)
    admin.create_subscription("news", "all", forward_to="to")
    ids = [f"id {number}" for number in range(60)]
    for each in ids:
        send_to("news", "x", message_id=each)
    found = {message.message_id: message.partition_id for message in take_from("to")}
    assert found == {each: oxbus.partition_id(each, 16) for each in ids}


def test_topic_as_destination(
    admin: ServiceBusAdministrationClient,
    topic: str,
    make_queue: Callable[..., str],
    subscribe: Callable[..., str],
    send_to: Callable[..., None],
    take_copies: Take,
) -> None:
    """Rules select arriving messages; one that no subscription selects is dropped (B-331, B-337, B-344)."""
    make_queue("from", forward_to=topic)
    send_to("from", "to nobody", partition_key="k")
    subscribe("all")
    admin.create_subscription("news", "red")
    admin.delete_rule("news", "red", "$Default")
    admin.create_rule("news", "red", "red", filter=SqlRuleFilter("color = 'red'"), action=SqlRuleAction("SET seen = 1"))
    send_to("from", "blue", partition_key="k", application_properties={"color": "blue"})
    send_to("from", "red", partition_key="k", application_properties={"color": "red"})
    assert texts(take_copies("all")) == ["blue", "red"]
    (red,) = take_copies("red")
    assert (str(red), red.application_properties) == ("red", {"color": "red", "seen": 1, "RuleName": "red"})
    assert red.enqueued_sequence_number is not None
    assert admin.get_queue_runtime_properties("from").total_message_count == 0


def test_subscription_to_queue_and_topic(
    admin: ServiceBusAdministrationClient,
    topic: str,
    make_queue: Callable[..., str],
    subscribe: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    client: ServiceBusClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    partitioned: bool,
) -> None:
    """Copies of a subscription are forwarded with their number in the topic (B-113, B-331)."""
    make_queue("queue")
    admin.create_topic("second", enable_partitioning=partitioned)
    admin.create_subscription("second", "all")
    for name, to in (("a", "queue"), ("b", "second"), ("c", None)):
        subscribe(name, forward_to=to)
    send_to(topic, *map(str, range(30)), partition_key="k")
    with client.get_subscription_receiver(topic, "c") as receiver:
        numbers = [message.enqueued_sequence_number for message in drain(receiver)]
    moved = take_from("queue")
    assert texts(moved) == [str(number) for number in range(30)]
    assert [message.enqueued_sequence_number for message in moved] == numbers
    with client.get_subscription_receiver("second", "all") as receiver:
        again = drain(receiver)
    assert [message.enqueued_sequence_number for message in again] == numbers
    counts = admin.get_subscription_runtime_properties(topic, "a")
    assert (counts.total_message_count, counts.transfer_message_count) == (0, 0)
    with (
        client.get_subscription_receiver(topic, "a") as receiver,
        pytest.raises(ServiceBusError, match="auto-forwarding"),
    ):
        receiver.receive_messages(max_wait_time=0)


def test_scheduled_time_set_by_a_rule_counts_at_the_destination(
    admin: ServiceBusAdministrationClient,
    topic: str,
    make_queue: Callable[..., str],
    subscribe: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    clock: ManualClock,
) -> None:
    """A rule's ScheduledEnqueueTime is ignored in the subscription and applies at the destination (B-242, B-337)."""
    make_queue("to")
    subscribe(
        filter=TrueRuleFilter(),
        action=SqlRuleAction("SET sys.ScheduledEnqueueTimeUtc = @t", {"@t": clock.now() + timedelta(minutes=10)}),
        forward_to="to",
    )
    send_to(topic, "x", partition_key="k")
    assert take_from("to") == []
    assert admin.get_queue_runtime_properties("to").scheduled_message_count == 1
    clock.advance(601)
    assert texts(take_from("to")) == ["x"]
