# SPDX-License-Identifier: Apache-2.0
"""The unmodified azure-servicebus SDK: sending, batches, receiving, and the fields of a message."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus import Namespace
    from oxbus.management import ServiceBusAdministrationClient

    Take = Callable[[ServiceBusReceiver, int], list[ServiceBusReceivedMessage]]


def text(message: ServiceBusReceivedMessage) -> str:
    """The body as text."""
    return b"".join(message.body).decode()


def test_a_message_is_received_with_all_its_fields(client: ServiceBusClient, queue: str, take: Take) -> None:
    """Properties, typed application properties and the body equal those sent (B-428, B-429, B-435)."""
    token = uuid.uuid4()
    sent = ServiceBusMessage(
        b"body",
        application_properties={"text": "t", "number": 7, "flag": True, "half": 0.5, "id": token, "bytes": b"b"},
        session_id="s",
        message_id="m",
        content_type="application/json",
        correlation_id="c",
        subject="subject",
        reply_to="r",
        reply_to_session_id="rs",
        to="to",
        time_to_live=timedelta(minutes=5),
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        assert text(message) == "body"
        assert message.application_properties == {
            b"text": b"t",
            b"number": 7,
            b"flag": True,
            b"half": 0.5,
            b"id": token,
            b"bytes": b"b",
        }
        assert (message.session_id, message.message_id, message.content_type) == ("s", "m", "application/json")
        assert (message.correlation_id, message.subject, message.to) == ("c", "subject", "to")
        assert (message.reply_to, message.reply_to_session_id) == ("r", "rs")
        assert message.time_to_live == timedelta(minutes=5)
        assert message.delivery_count == 0
        assert message.sequence_number is not None
        assert message.enqueued_time_utc is not None
        assert abs(message.enqueued_time_utc - datetime.now(UTC)) < timedelta(minutes=5)
        assert message.locked_until_utc is not None
        assert message.locked_until_utc > message.enqueued_time_utc
        receiver.complete_message(message)


def test_a_list_is_one_batch_in_one_partition(
    client: ServiceBusClient, queue: str, take: Take, partitioned: bool
) -> None:
    """A list of messages with one key stays together and in order (B-079)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(20)])
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        messages = take(receiver, 20)
    assert [text(message) for message in messages] == [str(number) for number in range(20)]
    assert {message.partition_key for message in messages} == {"k"}
    numbers = [message.sequence_number or 0 for message in messages]
    assert len({number >> 48 for number in numbers}) == 1
    if not partitioned:
        assert numbers == list(range(1, 21))


def test_keyless_messages_use_all_partitions(
    client: ServiceBusClient, bus: Namespace, queue: str, take: Take, partitioned: bool
) -> None:
    """Messages without a key use all partitions, so their numbers are from many partitions (B-062)."""
    with client.get_queue_sender(queue) as sender:
        for number in range(16):
            sender.send_messages(ServiceBusMessage(str(number)))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        messages = take(receiver, 16)
    assert {text(message) for message in messages} == {str(number) for number in range(16)}
    partitions = {(message.sequence_number or 0) >> 48 for message in messages}
    assert len(partitions) == (bus.partitions if partitioned else 1)


def test_a_batch_object_is_filled_and_sent(client: ServiceBusClient, queue: str, take: Take) -> None:
    """`create_message_batch` accepts messages until it is full, and all of them arrive."""
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch(max_size_in_bytes=2000)
        count = 5
        for _ in range(count):
            batch.add_message(ServiceBusMessage(b"x" * 100))
        with pytest.raises(MessageSizeExceededError):
            batch.add_message(ServiceBusMessage(b"x" * 1500))
        sender.send_messages(batch)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode, prefetch_count=count) as receiver:
        assert len(take(receiver, count)) == count


def test_a_large_message_is_sent_in_several_frames(client: ServiceBusClient, queue: str, take: Take) -> None:
    """A body of several times the frame size arrives complete."""
    body = bytes(range(256)) * 1000
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(body))
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        assert b"".join(message.body) == body
        receiver.complete_message(message)


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ({"value_body": {"a": [1, "two", None]}}, AmqpMessageBodyType.VALUE, {b"a": [1, b"two", None]}),
        ({"sequence_body": [[1, 2], ["three"]]}, AmqpMessageBodyType.SEQUENCE, [[1, 2], [b"three"]]),
        ({"data_body": [b"a", b"b"]}, AmqpMessageBodyType.DATA, [b"a", b"b"]),
    ],
    ids=["value", "sequence", "data"],
)
def test_every_form_of_body_is_received(
    client: ServiceBusClient, queue: str, take: Take, body: dict[str, Any], kind: AmqpMessageBodyType, expected: object
) -> None:
    """Values, sequences and several data sections arrive unchanged (B-428)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(AmqpAnnotatedMessage(**body))
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        assert message.body_type == kind
        found = message.body
        assert (list(found) if kind != AmqpMessageBodyType.VALUE else found) == expected
        receiver.complete_message(message)


def test_receive_and_delete_leaves_nothing(client: ServiceBusClient, queue: str, take: Take) -> None:
    """A message received in that mode is gone and has no lock (B-144)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a", partition_key="k"), ServiceBusMessage("b", partition_key="k")])
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        messages = take(receiver, 2)
        assert [message.locked_until_utc for message in messages] == [None, None]
        assert receiver.peek_messages() == []


def test_iterating_ends_when_no_message_arrives(client: ServiceBusClient, queue: str) -> None:
    """Iterating a receiver returns every message and ends after its `max_wait_time`."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(5)])
    seen = []
    with client.get_queue_receiver(queue, max_wait_time=1) as receiver:
        for message in receiver:
            seen.append(text(message))
            receiver.complete_message(message)
    assert seen == ["0", "1", "2", "3", "4"]


def test_prefetched_messages_are_locked_and_ordered(client: ServiceBusClient, queue: str, take: Take) -> None:
    """A receiver with prefetch gets every message exactly once."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(30)])
    with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
        messages = take(receiver, 30)
        assert [text(message) for message in messages] == [str(number) for number in range(30)]
        for message in messages:
            receiver.complete_message(message)


def test_session_id_and_partition_key_must_agree(client: ServiceBusClient, queue: str) -> None:
    """The broker rejects a message whose keys differ, also one that bypasses the SDK's own check (B-064)."""
    message = AmqpAnnotatedMessage(
        data_body=b"x", properties={"group_id": "s"}, annotations={"x-opt-partition-key": "p"}
    )
    with client.get_queue_sender(queue) as sender, pytest.raises(ServiceBusError):
        sender.send_messages(message)


def test_an_unknown_queue_is_refused_with_its_token(client: ServiceBusClient) -> None:
    """As in the service, the token of an unknown queue is rejected (B-419)."""
    with pytest.raises(ServiceBusAuthenticationError), client.get_queue_sender("nowhere") as sender:
        sender.send_messages(ServiceBusMessage("x"))


def test_an_unknown_subscription_is_not_found(client: ServiceBusClient, inside: ServiceBusAdministrationClient) -> None:
    """The attach of a link to an unknown subscription fails as not found (B-419)."""
    inside.create_topic("news")
    with pytest.raises(MessagingEntityNotFoundError), client.get_subscription_receiver("news", "nobody") as receiver:
        receiver.receive_messages(max_wait_time=1)


def test_the_dead_letter_queue_is_received_by_its_own_receiver(
    client: ServiceBusClient, queue: str, take: Take
) -> None:
    """Dead-lettered messages are in the sub-queue with reason and description (B-263)."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("bad"))
    with client.get_queue_receiver(queue) as receiver:
        (message,) = take(receiver, 1)
        receiver.dead_letter_message(message, reason="reason", error_description="text")
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = take(receiver, 1)
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("reason", "text")
        assert text(message) == "bad"
        receiver.complete_message(message)
