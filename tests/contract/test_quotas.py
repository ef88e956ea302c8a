# SPDX-License-Identifier: Apache-2.0
"""Size quotas of entities, and quotas that oxbus does not have (B-035 to B-039, B-048, B-054)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusQuotaExceededError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage
    from oxbus.testing import ManualClock

LARGE = b"x" * 400_000
"""Two of them fit into the megabyte of an entity here, three do not."""


def large(key: str = "k") -> ServiceBusMessage:
    """A message of 400 KB."""
    return ServiceBusMessage(LARGE, partition_key=key)


def test_a_full_queue_refuses_sends(
    client: ServiceBusClient, make_queue: Callable[..., str], snapshot: Callable[[str], object]
) -> None:
    """The error has the service's text and condition, nothing is stored, and completing frees space (B-036)."""
    name = make_queue("Small", max_size_in_megabytes=1)
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name, max_wait_time=0) as receiver:
        for _ in range(2):
            sender.send_messages(large())
        before = snapshot(name)
        text = "The maximum entity size has been reached or exceeded for Queue: 'Small'"
        with pytest.raises(ServiceBusQuotaExceededError, match=text) as refusal:
            sender.send_messages(large())
        assert refusal.value.condition == "amqp:resource-limit-exceeded"
        assert snapshot(name) == before
        receiver.complete_messages(receiver.receive_messages(max_message_count=1))
        sender.send_messages(large())


def test_a_full_topic_refuses_sends(
    client: ServiceBusClient, make_topic: Callable[..., str], subscribe: Callable[..., str]
) -> None:
    """Copies of all subscriptions count; completing them frees space (B-036, B-038)."""
    topic = make_topic("news", max_size_in_megabytes=1)
    for name in ("first", "second"):
        subscribe(name)
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(large())
        with pytest.raises(ServiceBusQuotaExceededError, match="for Topic: 'news'"):
            sender.send_messages(large())
        with client.get_subscription_receiver(topic, "first", max_wait_time=0) as receiver:
            receiver.complete_messages(receiver.receive_messages())
        sender.send_messages(large())


def test_a_hot_key_fills_its_partition_alone(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, key_in: Callable[..., str]
) -> None:
    """Each partition has the full size: when one is full, keyless messages go to others (B-035)."""
    admin.create_queue("q", enable_partitioning=True, max_size_in_megabytes=1)
    hot, cold = key_in(3), key_in(4)
    with client.get_queue_sender("q") as sender:
        for _ in range(2):
            sender.send_messages(large(hot))
        with pytest.raises(ServiceBusQuotaExceededError, match="Partition: 3"):
            sender.send_messages(large(hot))
        for _ in range(2):
            sender.send_messages(large(cold))
        for _ in range(28):
            sender.send_messages(ServiceBusMessage(LARGE))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(LARGE))
    assert admin.get_queue_runtime_properties("q").total_message_count == 32


@pytest.mark.parametrize("stage", ["active", "locked", "deferred", "dead-lettered", "scheduled"])
def test_every_stage_counts(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    stage: str,
) -> None:
    """Messages count toward the size in every state; `test_session_state` tests session states (B-037)."""
    name = make_queue("small", max_size_in_megabytes=1)
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        for _ in range(2):
            if stage == "scheduled":
                sender.schedule_messages(large(), clock.now() + timedelta(hours=1))
                continue
            sender.send_messages(large())
            if stage == "active":
                continue
            message = receive_one(receiver)
            if stage == "deferred":
                receiver.defer_message(message)
            elif stage == "dead-lettered":
                receiver.dead_letter_message(message)
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(large())


def test_a_large_message_counts_once(client: ServiceBusClient, make_queue: Callable[..., str]) -> None:
    """Two messages of 1.2 MB fit into 3 MB, whereas the service counts each twice (B-038)."""
    name = make_queue("q", max_size_in_megabytes=3)
    with client.get_queue_sender(name) as sender:
        for _ in range(2):
            sender.send_messages(ServiceBusMessage(b"x" * 1_200_000, partition_key="k"))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 1_200_000, partition_key="k"))


def test_memory_limit_is_the_size_of_a_namespace_in_memory(clock: ManualClock) -> None:
    """It counts the messages of all entities; sends beyond it are refused until something is completed (B-039)."""
    namespace = Namespace(memory_limit_bytes=1 << 20, clock=clock)
    admin = ServiceBusAdministrationClient(namespace)
    for name in ("a", "b"):
        admin.create_queue(name)
    with ServiceBusClient(namespace) as client:
        for name in ("a", "b"):
            client.get_queue_sender(name).send_messages(large())
        with pytest.raises(ServiceBusQuotaExceededError, match="memory_limit_bytes"):
            client.get_queue_sender("a").send_messages(large())
        receiver = client.get_queue_receiver("b", max_wait_time=0)
        receiver.complete_messages(receiver.receive_messages())
        client.get_queue_sender("a").send_messages(large())
    namespace.close()


def test_properties_have_no_limit_of_their_own(
    client: ServiceBusClient, queue_name: str, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A property over 32 KB and properties over 64 KB in total are accepted and received unchanged (B-048)."""
    properties = {name: name * 40_000 for name in ("a", "b", "c")}
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x", application_properties=properties))
        assert receive_one(receiver).application_properties == properties


def test_size_of_a_message_limits_sends_only(client: ServiceBusClient, admin: ServiceBusAdministrationClient) -> None:
    """A lowered limit does not prevent receiving larger messages (B-054)."""
    queue = admin.create_queue("q")
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q", max_wait_time=0) as receiver:
        sender.send_messages(large())
        queue.max_message_size_in_kilobytes = 256
        admin.update_queue(queue)
        with pytest.raises(ValueError, match="262144"):
            sender.send_messages(large())
        (message,) = receiver.receive_messages()
        assert len(b"".join(message.body)) == len(LARGE)
