# SPDX-License-Identifier: Apache-2.0
"""Lock policies of the receive cache: `fresh` (the default) and `faithful` (B-125 to B-130, B-134).

`prefetch_count` fills the cache in a known way: the first receive fills it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.testing import ManualClock

Policy = Literal["fresh", "faithful"]
LOCK = timedelta(minutes=1)
POLICIES: tuple[Policy, ...] = ("fresh", "faithful")
OPPOSITE: dict[Policy, Policy] = {"fresh": "faithful", "faithful": "fresh"}


@pytest.fixture
def ten_messages(sender: ServiceBusSender) -> ServiceBusSender:
    """Ten messages in one partition of `queue_name`."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(10)])
    return sender


@pytest.mark.usefixtures("ten_messages")
def test_faithful_cache_hides_messages_from_others(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Another client gets nothing while one receiver caches all messages (B-126, B-128, B-129)."""
    with (
        client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as holder,
        client.get_queue_receiver(queue_name, lock_policy="faithful") as other,
    ):
        receive_one(holder)
        assert drain(other) == []
        clock.advance(59.9)
        assert drain(other) == []
        clock.advance(0.2)
        messages = drain(other)
        assert [str(message) for message in messages] == [str(number) for number in range(10)]


@pytest.mark.usefixtures("ten_messages")
def test_expired_locks_of_a_faithful_cache_count_as_deliveries(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """An undelivered cached message counts a delivery when its lock expires (B-129, B-143)."""
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as holder:
        receive_one(holder)
        clock.advance(61)
        with client.get_queue_receiver(queue_name) as other:
            assert [message.delivery_count for message in drain(other)] == [1] * 10


@pytest.mark.usefixtures("ten_messages")
def test_faithful_lock_starts_at_prefetch(
    client: ServiceBusClient, queue_name: str, clock: ManualClock, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A message delivered late from the cache has only the rest of its lock (B-134)."""
    taken_at = clock.now()
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as receiver:
        receive_one(receiver)
        clock.advance(50)
        assert receive_one(receiver).locked_until_utc == taken_at + LOCK


@pytest.mark.usefixtures("ten_messages")
def test_faithful_cache_drops_expired_locks(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A receiver never delivers a cached message with an expired lock; it locks the message again (B-142, B-143)."""
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as receiver:
        receive_one(receiver)
        clock.advance(61)
        messages = drain(receiver)
        assert sorted(str(message) for message in messages) == [str(number) for number in range(10)]
        assert {message.delivery_count for message in messages} == {1}
        assert {message.locked_until_utc for message in messages} == {clock.now() + LOCK}
        receiver.complete_messages(messages)


@pytest.mark.usefixtures("ten_messages")
def test_faithful_cache_keeps_its_locks_when_the_receiver_closes(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Closing a faithful receiver leaves its cached messages locked until the locks end (B-129)."""
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as holder:
        receive_one(holder)
    with client.get_queue_receiver(queue_name) as other:
        assert drain(other) == []
        clock.advance(61)
        assert len(drain(other)) == 10


@pytest.mark.usefixtures("ten_messages")
def test_fresh_is_the_default_and_does_not_hide_messages(
    client: ServiceBusClient, queue_name: str, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Under the default policy a waiting receiver gets messages of another's cache as first deliveries (B-128)."""
    seen: list[ServiceBusReceivedMessage] = []
    with (
        client.get_queue_receiver(queue_name, prefetch_count=50) as holder,
        client.get_queue_receiver(queue_name) as other,
    ):
        first = receive_one(holder)
        while len(seen) < 9:
            messages = other.receive_messages(max_message_count=9, max_wait_time=5)
            assert messages, "another receiver's cache hides messages"
            seen += messages
    assert sorted(str(message) for message in [first, *seen]) == [str(number) for number in range(10)]
    assert {message.delivery_count for message in seen} == {0}


@pytest.mark.usefixtures("ten_messages")
def test_fresh_lock_starts_at_delivery(
    client: ServiceBusClient, queue_name: str, clock: ManualClock, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Under the default policy a message delivered late from the cache has its full lock (B-142)."""
    with client.get_queue_receiver(queue_name, prefetch_count=50) as receiver:
        receive_one(receiver)
        clock.advance(50)
        late = receive_one(receiver)
        assert late.locked_until_utc == clock.now() + LOCK
        clock.advance(50)
        receiver.complete_message(late)


@pytest.mark.usefixtures("ten_messages")
def test_fresh_cache_uses_up_no_deliveries(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """However long messages stay in a cache, only delivered ones count a delivery (B-142, B-143)."""
    with client.get_queue_receiver(queue_name, prefetch_count=50) as receiver:
        first = receive_one(receiver)
        for _ in range(20):
            clock.advance(61)
        counts = {str(message): message.delivery_count for message in drain(receiver)}
    assert counts == {str(number): 1 if str(number) == str(first) else 0 for number in range(10)}


@pytest.mark.usefixtures("ten_messages")
def test_closing_a_receiver_releases_its_fresh_cache_without_counting_deliveries(
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Closing a receiver releases its cached messages in order and counts no delivery (B-139, B-163)."""
    with client.get_queue_receiver(queue_name, prefetch_count=50) as holder:
        receive_one(holder)
    with client.get_queue_receiver(queue_name) as other:
        messages = drain(other)
    assert [str(message) for message in messages] == [str(number) for number in range(1, 10)]
    assert {message.delivery_count for message in messages} == {0}


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_of_the_namespace_holds_for_its_receivers(
    open_namespace: Callable[..., Namespace],
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    partitioned: bool,
    policy: Policy,
) -> None:
    """`lock_policy` can be set for the namespace and overridden for a receiver (B-126, B-129)."""
    namespace = open_namespace(clock=clock, lock_policy=policy)
    ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=partitioned)
    taken_at = clock.now()
    with ServiceBusClient(namespace) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage(b"x") for _ in range(20)])
        ends = {}
        for name, own_policy in (("namespace", None), ("receiver", OPPOSITE[policy])):
            with client.get_queue_receiver("orders", prefetch_count=2, lock_policy=own_policy) as receiver:
                receive_one(receiver)
                clock.advance(10)
                ends[name] = receive_one(receiver).locked_until_utc
    fresh_one, faithful_one = ("namespace", "receiver") if policy == "fresh" else ("receiver", "namespace")
    started = {"namespace": taken_at, "receiver": taken_at + timedelta(seconds=10)}
    assert ends[fresh_one] == started[fresh_one] + timedelta(seconds=10) + LOCK
    assert ends[faithful_one] == started[faithful_one] + LOCK


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_loses_messages(
    sender: ServiceBusSender,
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    policy: Policy,
) -> None:
    """Receivers that open and close with full caches lose nothing under either policy (B-125, R-01)."""
    for number in range(100):
        sender.send_messages(ServiceBusMessage(str(number)))
    seen = []
    for _ in range(8):
        with client.get_queue_receiver(queue_name, lock_policy=policy, prefetch_count=10) as receiver:
            for message in receiver.receive_messages(max_message_count=3, max_wait_time=0):
                receiver.complete_message(message)
                seen.append(int(str(message)))
    clock.advance(61)
    with client.get_queue_receiver(queue_name, lock_policy=policy) as receiver:
        seen += [int(str(message)) for message in drain(receiver)]
    assert sorted(seen) == list(range(100))


def test_unknown_policy_is_refused(
    client: ServiceBusClient, queue_name: str, open_namespace: Callable[..., Namespace]
) -> None:
    """An unknown policy is a ValueError that names the two valid ones (B-126)."""
    with pytest.raises(ValueError, match="faithful"):
        open_namespace(lock_policy="lazy")
    unknown: Any = "lazy"
    with pytest.raises(ValueError, match="faithful"):
        client.get_queue_receiver(queue_name, lock_policy=unknown)
