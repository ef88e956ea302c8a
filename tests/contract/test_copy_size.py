# SPDX-License-Identifier: Apache-2.0
"""Copies that an action makes larger than the topic's message limit (B-054, B-167, B-267, B-379)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage
from oxbus.management import SqlRuleAction, SqlRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient

GROWS = SqlRuleAction("SET a = a + a; SET b = a + a")
"""An action that makes a text four times as long, in two properties."""


@pytest.fixture
def small_topic(make_topic: Callable[..., str], subscribe: Callable[..., str]) -> str:
    """A topic for messages of 2 KiB, with a subscription that has an action and one that has none."""
    topic = make_topic(max_message_size_in_kilobytes=2)
    subscribe("grown", filter=SqlRuleFilter("1=1"), action=GROWS)
    subscribe("plain")
    return topic


@pytest.mark.parametrize("dead_letter_failed_filters", [True, False])
def test_too_large_a_copy_is_dead_lettered(
    small_topic: str,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    dead_letter_failed_filters: bool,
) -> None:
    """The message as sent goes to the dead-letter queue, whatever the option for failed filters is (B-267, B-379)."""
    grown = admin.get_subscription(small_topic, "grown")
    grown.dead_lettering_on_filter_evaluation_exceptions = dead_letter_failed_filters
    admin.update_subscription(small_topic, grown)
    with client.get_topic_sender(small_topic) as sender:
        sender.send_messages(ServiceBusMessage(b"x", application_properties={"a": "y" * 500}))
        sender.send_messages([ServiceBusMessage(b"x", application_properties={"a": "y" * 500})])
    with client.get_subscription_receiver(small_topic, "grown", sub_queue="deadletter") as dead:
        dead_letters = drain(dead)
    assert len(dead_letters) == 2
    for message in dead_letters:
        assert message.dead_letter_reason == "HeaderSizeExceeded"
        assert message.dead_letter_error_description == "The size quota for this stream has been exceeded."
        assert message.application_properties is not None
        assert message.application_properties.keys() >= {"a"}
        assert "b" not in message.application_properties
        assert len(message.application_properties["a"]) == 500
    assert admin.get_subscription_runtime_properties(small_topic, "grown").active_message_count == 0
    assert admin.get_subscription_runtime_properties(small_topic, "plain").active_message_count == 2


def test_a_copy_within_the_limit_goes_through(
    small_topic: str, client: ServiceBusClient, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """The topic's limit applies to the copy after the action (B-054, B-379)."""
    with client.get_topic_sender(small_topic) as sender:
        sender.send_messages(ServiceBusMessage(b"x", application_properties={"a": "y" * 200}))
    with client.get_subscription_receiver(small_topic, "grown") as receiver:
        (message,) = drain(receiver)
    assert message.application_properties is not None
    assert [len(message.application_properties[name]) for name in "ab"] == [400, 800]


def test_a_raised_limit_counts_from_then_on(
    small_topic: str, client: ServiceBusClient, admin: ServiceBusAdministrationClient
) -> None:
    """An update of the topic's limit applies to later copies (B-054)."""
    topic = admin.get_topic(small_topic)
    topic.max_message_size_in_kilobytes = 64
    admin.update_topic(topic)
    with client.get_topic_sender(small_topic) as sender:
        sender.send_messages(ServiceBusMessage(b"x", application_properties={"a": "y" * 500}))
    counts = admin.get_subscription_runtime_properties(small_topic, "grown")
    assert (counts.active_message_count, counts.dead_letter_message_count) == (1, 0)
