# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-servicebus SDK: annotations, properties and footer are received as sent.

`test_message_inner_amqp_properties`, `test_queue_send_amqp_annotated_message` and `test_message_property` of the
SDK's own suite require this; test_azure_sdk_suite.py runs them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver

    Take = Callable[[ServiceBusReceiver, int], list[ServiceBusReceivedMessage]]

SENT: dict[str, Any] = {
    "data_body": [b"body"],
    "header": {"priority": 5, "durable": True},
    "annotations": {"ann_key": "ann_value"},
    "delivery_annotations": {"delann_key": "delann_value", "number": 3},
    "footer": {"footer_key": "footer_value"},
}
"""The parts of a message."""


def check(message: ServiceBusReceivedMessage) -> None:
    """The message has all that was sent with it."""
    raw: Any = message.raw_amqp_message
    assert (raw.header.priority, raw.header.durable) == (5, True)
    assert raw.annotations[b"ann_key"] == b"ann_value"
    assert raw.delivery_annotations[b"delann_key"] == b"delann_value"
    assert raw.delivery_annotations[b"number"] == 3
    assert raw.footer == {b"footer_key": b"footer_value"}


def test_annotations_of_both_kinds_are_received(client: ServiceBusClient, queue: str, take: Take) -> None:
    """Sent singly, in a list and in a batch, received and peeked; the broker adds its lock token (B-430)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(AmqpAnnotatedMessage(**SENT))
        sender.send_messages([AmqpAnnotatedMessage(**SENT)])
        batch = sender.create_message_batch()
        batch.add_message(AmqpAnnotatedMessage(**SENT))
        sender.send_messages(batch)
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver.peek_messages(3):
            check(message)
        messages = take(receiver, 3)
        assert len({message.lock_token for message in messages}) == 3
        for message in messages:
            check(message)
            receiver.complete_message(message)


def test_a_received_message_is_sent_again_without_annotations_of_the_broker(
    client: ServiceBusClient, queue: str, take: Take
) -> None:
    """Annotations of its first sender stay, the old lock token does not (B-430)."""
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(AmqpAnnotatedMessage(**SENT))
        (first,) = take(receiver, 1)
        raw: Any = first.raw_amqp_message
        sender.send_messages(
            AmqpAnnotatedMessage(
                data_body=[b"again"],
                header={"priority": 5, "durable": True},
                annotations=raw.annotations,
                delivery_annotations=raw.delivery_annotations,
                footer=raw.footer,
            )
        )
        (again,) = take(receiver, 1)
        check(again)
        assert again.lock_token != first.lock_token
        receiver.complete_message(first)
        receiver.complete_message(again)


@pytest.mark.parametrize("text", ["1.2345", "-7", "0", "0.1", "-0.0000000000000000000000000001", "4294967295"])
def test_a_decimal_is_received(client: ServiceBusClient, queue: str, take: Take, text: str) -> None:
    """The SDK's decoder reads the form of .NET, and its encoder writes the standard form (B-429)."""
    sent = ServiceBusMessage(b"", application_properties={"decimal": Decimal(text)})  # type: ignore[dict-item]
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        (message,) = take(receiver, 1)
    found: Any = message.application_properties
    assert found == {b"decimal": Decimal(text)}
