# SPDX-License-Identifier: Apache-2.0
"""Rules of docs/compat.md that no other file here covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus import ServiceBusMessage

if TYPE_CHECKING:
    from oxbus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient


def test_queue_has_no_enqueued_sequence_number_of_another_entity(client: ServiceBusClient, queue_name: str) -> None:
    """Messages of a queue have no enqueued sequence number (B-115)."""
    client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("one"))
    (message,) = client.get_queue_receiver(queue_name).receive_messages(max_wait_time=0)
    assert message.enqueued_sequence_number is None


def test_later_receives_of_a_receiver_meet_its_own_cache(client: ServiceBusClient, queue_name: str) -> None:
    """Later calls of a receiver return its prefetched messages (B-127)."""
    client.get_queue_sender(queue_name).send_messages([ServiceBusMessage(str(number)) for number in range(4)])
    receiver = client.get_queue_receiver(queue_name, prefetch_count=10, lock_policy="faithful", max_wait_time=0)
    (first,) = receiver.receive_messages()
    rest = [*receiver.receive_messages(max_message_count=1), *receiver]
    assert [str(message) for message in (first, *rest)] == ["0", "1", "2", "3"]


def test_changing_a_queue_keeps_its_locks(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """An update detaches no receiver, so a locked message can still be settled (B-159)."""
    client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("one"))
    receiver = client.get_queue_receiver(queue_name)
    (message,) = receiver.receive_messages(max_wait_time=0)
    properties = admin.get_queue(queue_name)
    properties.max_delivery_count = 3
    admin.update_queue(properties)
    receiver.complete_message(message)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_changed_properties_may_grow(client: ServiceBusClient, queue_name: str) -> None:
    """Each abandon may replace a property by a longer one (B-167)."""
    client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("one", application_properties={"trail": "a"}))
    receiver = client.get_queue_receiver(queue_name)
    for length in (10, 100, 1000):
        (message,) = receiver.receive_messages(max_wait_time=0)
        receiver.abandon_message(message, properties_to_modify={"trail": "a" * length})
    (message,) = receiver.receive_messages(max_wait_time=0)
    assert message.application_properties == {"trail": "a" * 1000}


def test_settlement_that_returned_is_done(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, queue_name: str
) -> None:
    """When complete returns, peek, counts and receives no longer show the message (B-169)."""
    client.get_queue_sender(queue_name).send_messages(ServiceBusMessage("one"))
    receiver = client.get_queue_receiver(queue_name)
    (message,) = receiver.receive_messages(max_wait_time=0)
    receiver.complete_message(message)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0
    assert client.get_queue_receiver(queue_name).peek_messages() == []
