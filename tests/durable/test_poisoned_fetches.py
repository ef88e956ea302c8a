# SPDX-License-Identifier: Apache-2.0
"""A deferred message that ends its process at every fetch: the maximum delivery count holds over restarts (R-14).

It did not: a message locked when the process ended returned as deferred, whatever its count, and was delivered
again after each reopen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from durable_bus import WAYS, bodies
from oxbus import ServiceBusMessage, ServiceBusMessageState
from oxbus.exceptions import MessageNotFoundError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from durable_bus import Bus
    from oxbus import ServiceBusReceivedMessage


@pytest.fixture
def deferred(bus: Bus, partitioned: bool) -> ServiceBusReceivedMessage:
    """A deferred message in a queue with a maximum of two deliveries."""
    bus.admin.create_queue("q", enable_partitioning=partitioned, max_delivery_count=2)
    bus.send("poison", "after", partition_key="k")
    message = bus.take_one()
    bus.receiver().defer_message(message)
    return message


def fetch(bus: Bus, message: ServiceBusReceivedMessage) -> ServiceBusReceivedMessage:
    """Fetch it by number."""
    (fetched,) = bus.receiver().receive_deferred_messages(message.sequence_number)
    return fetched


def assert_dead_lettered(bus: Bus, message: ServiceBusReceivedMessage) -> None:
    """The message is a dead letter, as if its lock had expired in a running process."""
    with pytest.raises(MessageNotFoundError):
        fetch(bus, message)
    dead = bus.take_one(sub_queue="deadletter")
    assert (str(dead), dead.sequence_number, dead.delivery_count) == ("poison", message.sequence_number, 2)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description == "Message could not be consumed after 2 delivery attempts."
    assert bodies(bus.take()) == ["after"]
    assert bus.runtime().deferred_message_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_last_fetch_is_the_last(bus: Bus, deferred: ServiceBusReceivedMessage, way: str) -> None:
    """After the last delivery the open dead-letters it, and it stays so over further opens (B-178, B-281, R-14)."""
    for count in (1, 2):
        assert fetch(bus, deferred).delivery_count == count
        bus.reopen(way)
    bus.reopen(way)
    assert_dead_lettered(bus, deferred)


@pytest.mark.parametrize("way", WAYS)
def test_exhausted_message_that_was_deferred_again_stays_deferred(
    bus: Bus, deferred: ServiceBusReceivedMessage, way: str
) -> None:
    """Deferring it again settles the delivery: no lock existed when the process ended (B-283, R-14)."""
    for _ in range(2):
        bus.receiver().defer_message(fetch(bus, deferred))
    for _ in range(2):
        bus.reopen(way)
        (rests, _) = bus.peek()
        assert (rests.state, rests.delivery_count) == (ServiceBusMessageState.DEFERRED, 2)
    assert bus.runtime().dead_letter_message_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_dead_letter_that_was_fetched_stays(bus: Bus, deferred: ServiceBusReceivedMessage, way: str) -> None:
    """In the dead-letter queue the count has no limit, however often a fetch ends the process (B-179, B-287)."""
    bus.receiver().dead_letter_message(fetch(bus, deferred))
    bus.receiver(sub_queue="deadletter").defer_message(bus.take_one(sub_queue="deadletter"))
    for count in range(2, 6):
        receiver = bus.receiver(sub_queue="deadletter")
        (fetched,) = receiver.receive_deferred_messages(deferred.sequence_number)
        assert fetched.delivery_count == count
        bus.reopen(way)
    assert bus.runtime().dead_letter_message_count == 1


@pytest.mark.parametrize("way", WAYS)
def test_fetch_in_a_session_counts_too(bus: Bus, way: str) -> None:
    """The lock of a session ends with the process like that of a message (B-206, R-14)."""
    bus.admin.create_queue("s", requires_session=True, max_delivery_count=2)
    bus.send("poison", queue_name="s", session_id="1")
    with bus.client.get_queue_receiver("s", session_id="1") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=5)
        receiver.defer_message(message)
    for _ in range(2):
        holder = bus.client.get_queue_receiver("s", session_id="1").__enter__()
        assert bodies(holder.receive_deferred_messages(message.sequence_number)) == ["poison"]
        bus.reopen(way)
    counts = bus.runtime("s")
    assert (counts.deferred_message_count, counts.dead_letter_message_count) == (0, 1)


@pytest.mark.parametrize("way", WAYS)
def test_fetch_from_a_subscription_counts_too(bus: Bus, way: str) -> None:
    """A subscription has the maximum delivery count of a queue (R-14)."""
    bus.admin.create_topic("t", enable_partitioning=True)
    bus.admin.create_subscription("t", "s", max_delivery_count=2)
    with bus.client.get_topic_sender("t") as sender:
        sender.send_messages(ServiceBusMessage("poison"))
    with bus.client.get_subscription_receiver("t", "s") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=5)
        receiver.defer_message(message)
    for _ in range(2):
        receiver = bus.client.get_subscription_receiver("t", "s")
        assert bodies(receiver.receive_deferred_messages(message.sequence_number)) == ["poison"]
        bus.reopen(way)
    counts = bus.admin.get_subscription_runtime_properties("t", "s")
    assert (counts.active_message_count, counts.dead_letter_message_count) == (0, 1)


def test_fetch_of_a_killed_process_counts(
    bus: Bus,
    deferred: ServiceBusReceivedMessage,
    start_python: Callable[..., subprocess.Popen[str]],
    until_printed: Callable[[subprocess.Popen[str], str], None],
) -> None:
    """Two processes fetch it and are killed; the third open finds it dead-lettered (R-13, R-14)."""
    bus.close()
    for _ in range(2):
        process = start_python(
            """
            namespace = Namespace(sys.argv[1])
            receiver = ServiceBusClient(namespace).get_queue_receiver("q")
            receiver.receive_deferred_messages(int(sys.argv[2]))
            print("has it", flush=True)
            time.sleep(600)
            """,
            bus.path,
            deferred.sequence_number,
        )
        until_printed(process, "has it")
        process.kill()
        process.wait()
    bus.open()
    assert_dead_lettered(bus, deferred)
