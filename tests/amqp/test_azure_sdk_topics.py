# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-servicebus SDK: topics, subscriptions and rules, created with its administration client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from azure.servicebus.management import ServiceBusAdministrationClient

    Take = Callable[[ServiceBusReceiver, int], list[ServiceBusReceivedMessage]]


def text(message: ServiceBusReceivedMessage) -> str:
    """The body as text."""
    return b"".join(message.body).decode()


def test_rules_select_and_change_the_copies(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, partitioned: bool, take: Take
) -> None:
    """SQL and correlation filters select messages, and an action changes the copy (B-343 … B-381)."""
    admin.create_topic("news", enable_partitioning=partitioned)
    for name in ("all", "red", "letters"):
        admin.create_subscription("news", name)
    for name in ("red", "letters"):
        admin.delete_rule("news", name, "$Default")
    red = SqlRuleFilter("colour = 'red' AND size > 3")
    admin.create_rule("news", "red", "r", filter=red, action=SqlRuleAction("SET seen = TRUE"))
    admin.create_rule("news", "letters", "l", filter=CorrelationRuleFilter(label="letter", properties={"to": "me"}))
    with client.get_topic_sender("news") as sender:
        sender.send_messages(
            ServiceBusMessage("big red", application_properties={"colour": "red", "size": 5}, partition_key="k")
        )
        sender.send_messages(
            ServiceBusMessage("small red", application_properties={"colour": "red", "size": 1}, partition_key="k")
        )
        sender.send_messages(
            ServiceBusMessage("letter", subject="letter", application_properties={"to": "me"}, partition_key="k")
        )

    def received(name: str, count: int) -> list[ServiceBusReceivedMessage]:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_subscription_receiver("news", name, receive_mode=mode) as receiver:
            messages = take(receiver, count)
            assert receiver.peek_messages() == []
            return messages

    assert [text(message) for message in received("all", 3)] == ["big red", "small red", "letter"]
    (copy,) = received("red", 1)
    assert text(copy) == "big red"
    assert copy.application_properties is not None
    assert copy.application_properties[b"seen"] is True
    assert [text(message) for message in received("letters", 1)] == ["letter"]


def test_entities_are_made_read_changed_and_removed(admin: ServiceBusAdministrationClient, partitioned: bool) -> None:
    """Entities, also partitioned ones, are managed; partitioning cannot be changed (B-456 … B-465)."""
    made = admin.create_queue("orders", enable_partitioning=partitioned, max_delivery_count=7)
    assert (made.enable_partitioning, made.max_delivery_count) == (partitioned, 7)
    found = admin.get_queue("orders")
    assert found.enable_partitioning is partitioned
    found.max_delivery_count = 8
    admin.update_queue(found)
    assert admin.get_queue("orders").max_delivery_count == 8
    found.enable_partitioning = not partitioned
    with pytest.raises(HttpResponseError):
        admin.update_queue(found)
    with pytest.raises(ResourceExistsError):
        admin.create_queue("orders")
    assert [queue.name for queue in admin.list_queues()] == ["orders"]
    admin.delete_queue("orders")
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue("orders")


def test_counts_match_the_messages_that_were_sent(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, queue: str, take: Take
) -> None:
    """Runtime properties count the messages that were sent and settled (B-388)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(3)])
    with client.get_queue_receiver(queue) as receiver:
        first, _second = take(receiver, 2)
        receiver.dead_letter_message(first)
        counts = admin.get_queue_runtime_properties(queue)
        assert (counts.active_message_count, counts.dead_letter_message_count) == (2, 1)
