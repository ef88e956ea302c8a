# SPDX-License-Identifier: Apache-2.0
"""Prefetch: messages that a receiver caches ahead of its calls (B-141 to B-145)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock


@pytest.fixture
def twenty_messages(sender: ServiceBusSender) -> ServiceBusSender:
    """Twenty messages in one partition of `queue_name`."""
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
    return sender


@pytest.mark.usefixtures("twenty_messages")
@pytest.mark.parametrize("prefetch_count", [0, 1, 5, 50])
def test_prefetch_changes_no_result(
    client: ServiceBusClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    prefetch_count: int,
) -> None:
    """With any prefetch count each message is delivered once and in order (B-141)."""
    with client.get_queue_receiver(queue_name, prefetch_count=prefetch_count) as receiver:
        messages = drain(receiver, 3)
    assert [str(message) for message in messages] == [str(number) for number in range(20)]
    assert {message.delivery_count for message in messages} == {0}


@pytest.mark.usefixtures("twenty_messages")
def test_buffered_messages_are_served_first(
    client: ServiceBusClient, queue_name: str, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A receiver returns buffered messages before it fetches from the queue again (B-141, B-145)."""
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=5) as receiver:
        first = receive_one(receiver)
        receiver.abandon_message(first)
        following = [str(receive_one(receiver)) for _ in range(6)]
    assert "0" in following
    assert [text for text in following if text != "0"] == ["1", "2", "3", "4", "5"]


@pytest.mark.usefixtures("twenty_messages")
def test_one_receive_is_in_order_whatever_the_buffer_holds(
    client: ServiceBusClient, queue_name: str, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """A call that takes messages from buffer and queue returns them in order (B-120, B-145).

    An abandoned message used to follow the buffered ones in one call's list.
    """
    with client.get_queue_receiver(queue_name, prefetch_count=5) as receiver:
        receiver.abandon_message(receive_one(receiver))
        messages = receiver.receive_messages(max_message_count=15, max_wait_time=0)
    numbers = [message.sequence_number for message in messages]
    assert numbers == sorted(numbers)
    assert "0" in [str(message) for message in messages]


@pytest.mark.usefixtures("twenty_messages")
def test_prefetch_takes_no_more_than_its_count(
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """A receiver buffers at most its prefetch count; other receivers can get the rest (B-133, B-141)."""
    with (
        client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=5) as holder,
        client.get_queue_receiver(queue_name, lock_policy="faithful") as other,
    ):
        receive_one(holder)
        assert len(drain(other)) >= 20 - 1 - 5


@pytest.mark.usefixtures("twenty_messages")
def test_no_prefetch_holds_nothing_back_for_long(
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """With a prefetch of 0, another receiver under the default policy gets every undelivered message (B-141)."""
    with client.get_queue_receiver(queue_name) as first, client.get_queue_receiver(queue_name) as second:
        taken = receive_one(first)
        assert sorted(int(str(message)) for message in [taken, *drain(second)]) == list(range(20))


def test_expired_buffered_messages_hide_nothing(
    client: ServiceBusClient, queue_name: str, sender: ServiceBusSender, clock: ManualClock
) -> None:
    """Another receiver gets a buffered message that precedes expired ones (B-138, B-141).

    Found by the model: the second half of the buffer was reclaimed, and nothing came if all of that had expired.
    """
    sender.send_messages([ServiceBusMessage(text, partition_key="k") for text in ("first", "second")])
    late = ServiceBusMessage("late", partition_key="k", time_to_live=timedelta(seconds=5))
    sender.send_messages([late] * 30)
    with (
        client.get_queue_receiver(queue_name, prefetch_count=50) as first,
        client.get_queue_receiver(queue_name) as second,
    ):
        assert [str(it) for it in first.receive_messages(max_message_count=1, max_wait_time=5)] == ["first"]
        clock.advance(5)
        assert [str(it) for it in second.receive_messages(max_message_count=1, max_wait_time=0)] == ["second"]


@pytest.mark.usefixtures("twenty_messages")
def test_expired_buffer_locks_can_dead_letter_under_the_faithful_policy(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Messages whose locks expire in a buffer repeatedly are dead-lettered, as in the service (B-143)."""
    queue = admin.get_queue(queue_name)
    queue.max_delivery_count = 2
    admin.update_queue(queue)
    with client.get_queue_receiver(queue_name, lock_policy="faithful", prefetch_count=50) as receiver:
        for _ in range(2):
            receive_one(receiver)
            clock.advance(61)
    assert admin.get_queue_runtime_properties(queue_name).dead_letter_message_count == 20


@pytest.mark.usefixtures("twenty_messages")
def test_faithful_receive_and_delete_buffer_is_lost_with_its_receiver(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Under the faithful policy, receive-and-delete removes prefetched messages from the queue (B-144)."""
    with client.get_queue_receiver(
        queue_name, lock_policy="faithful", prefetch_count=50, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        receive_one(receiver)
        assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


@pytest.mark.usefixtures("twenty_messages")
def test_fresh_receive_and_delete_buffer_is_not_lost(
    client: ServiceBusClient,
    queue_name: str,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Under the default policy closing releases undelivered messages, in receive-and-delete mode too (B-144)."""
    with client.get_queue_receiver(
        queue_name, prefetch_count=50, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        first = receive_one(receiver)
    with client.get_queue_receiver(queue_name) as other:
        assert sorted(int(str(message)) for message in [first, *drain(other)]) == list(range(20))


@pytest.mark.parametrize("prefetch_count", [-1, 50_001])
def test_prefetch_out_of_range_is_refused(client: ServiceBusClient, queue_name: str, prefetch_count: int) -> None:
    """A prefetch below 0 or above 50,000 is a ValueError as in the SDK (B-141)."""
    with pytest.raises(ValueError, match="prefetch_count"):
        client.get_queue_receiver(queue_name, prefetch_count=prefetch_count)


@pytest.mark.usefixtures("twenty_messages")
@pytest.mark.parametrize("returns", ["abandoned", "expired"])
def test_without_prefetch_nothing_overtakes_a_returned_message(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    returns: str,
) -> None:
    """A returned message is received again before later ones of its partition.

    Messages cached with it are released with it; only a prefetch gives up that order (B-145).
    """
    with client.get_queue_receiver(queue_name) as receiver:
        first = receive_one(receiver)
        if returns == "abandoned":
            receiver.abandon_message(first)
        else:
            clock.advance(61)
        messages = [receive_one(receiver) for _ in range(20)]
        assert [str(message) for message in messages] == [str(number) for number in range(20)]
        assert [message.delivery_count for message in messages] == [1] + [0] * 19
        receiver.complete_messages(messages)
        assert drain(receiver, 1) == []
