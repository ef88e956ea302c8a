# SPDX-License-Identifier: Apache-2.0
"""Peek as in the service: one partition at a time (B-297, B-298, B-301)."""

from __future__ import annotations

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient


def test_faithful_peek_answers_from_one_partition() -> None:
    """A peek returns one partition's oldest messages; a loop shows each message once (B-297, B-298)."""
    namespace = Namespace(peek_policy="faithful")
    ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    with ServiceBusClient(namespace) as client:
        with client.get_queue_sender("q") as sender:
            for number in range(48):
                sender.send_messages(ServiceBusMessage(str(number)))
        with client.get_queue_receiver("q") as receiver:
            seen: list[int] = []
            while peeked := receiver.peek_messages(250):
                numbers = [message.sequence_number or 0 for message in peeked]
                assert len({number >> 48 for number in numbers}) == 1
                assert numbers == sorted(numbers)
                assert len(numbers) == 3
                seen += numbers
            assert len(seen) == len(set(seen)) == 48


def test_faithful_peek_of_a_plain_queue_is_the_default_one() -> None:
    """A plain queue is peeked oldest first under both policies (B-297)."""
    namespace = Namespace(peek_policy="faithful")
    ServiceBusAdministrationClient(namespace).create_queue("q")
    with ServiceBusClient(namespace) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
        with client.get_queue_receiver("q") as receiver:
            assert [str(message) for message in receiver.peek_messages(10)] == ["0", "1", "2", "3", "4"]


def test_unknown_policy_is_refused() -> None:
    """The error lists the valid policies."""
    with pytest.raises(ValueError, match="merged"):
        Namespace(peek_policy="random")
