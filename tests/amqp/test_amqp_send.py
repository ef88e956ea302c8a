# SPDX-License-Identifier: Apache-2.0
"""Messages sent with the unmodified SDK arrive complete (B-421, B-428, B-429, B-079 … B-084)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import oxbus
import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import MessageSizeExceededError, MessagingEntityNotFoundError, ServiceBusError

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from oxbus import Namespace
    from oxbus.management import ServiceBusAdministrationClient

PROPERTIES: dict[Any, Any] = {"text": "ä", "int": -5, "float": 2.5, "bool": True, "none": None, "uuid": UUID(int=7)}


def test_a_message_is_received_with_all_fields_that_were_sent(client: ServiceBusClient, queue: str) -> None:
    """Body, properties and application properties of a received message equal those sent."""
    sent = ServiceBusMessage(
        b"body",
        application_properties=PROPERTIES,
        message_id="m-1",
        subject="subject",
        content_type="text/plain",
        correlation_id="c-1",
        to="there",
        reply_to="here",
        reply_to_session_id="rs",
        partition_key="key",
        time_to_live=timedelta(minutes=5),
    )
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(sent)
        (got,) = receiver.receive_messages(max_wait_time=10)
        assert b"".join(got.body) == b"body"
        assert got.body_type == AmqpMessageBodyType.DATA
        assert (got.message_id, got.subject, got.content_type) == ("m-1", "subject", "text/plain")
        assert (got.correlation_id, got.to, got.reply_to) == ("c-1", "there", "here")
        assert (got.reply_to_session_id, got.partition_key) == ("rs", "key")
        assert got.time_to_live == timedelta(minutes=5)
        assert got.application_properties == {
            key.encode(): value.encode() if isinstance(value, str) else value for key, value in PROPERTIES.items()
        }
        assert got.delivery_count == 0
        assert got.locked_until_utc is not None
        assert got.enqueued_time_utc is not None
        receiver.complete_message(got)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"value_body": {"a": 1}}, AmqpMessageBodyType.VALUE),
        ({"sequence_body": [1, 2, "x"]}, AmqpMessageBodyType.SEQUENCE),
        ({"data_body": [b"one", b"two"]}, AmqpMessageBodyType.DATA),
    ],
)
def test_bodies_of_every_form_are_received(
    client: ServiceBusClient, queue: str, body: dict[str, Any], kind: AmqpMessageBodyType
) -> None:
    """A value, a sequence and several data sections are received as they were sent."""
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(AmqpAnnotatedMessage(**body))
        (got,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(got)
    assert got.body_type == kind
    if kind == AmqpMessageBodyType.VALUE:
        assert got.body == {b"a": 1}
    elif kind == AmqpMessageBodyType.SEQUENCE:
        assert [list(part) for part in got.body] == [[1, 2, b"x"]]
    else:
        assert list(got.body) == [b"one", b"two"]


def test_a_batch_is_stored_as_its_messages(client: ServiceBusClient, queue: str, bus: Namespace) -> None:
    """Each message of a batch is a message of the queue (B-083)."""
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        for number in range(50):
            batch.add_message(ServiceBusMessage(str(number)))
        sender.send_messages(batch)
    with oxbus.ServiceBusClient(bus) as in_process, in_process.get_queue_receiver(queue) as receiver:
        got = receiver.receive_messages(100, max_wait_time=0)
    assert sorted(int(str(message)) for message in got) == list(range(50))


def test_a_large_message_is_sent_and_received_in_several_frames(client: ServiceBusClient, queue: str) -> None:
    """A message longer than a frame is reassembled, in both directions."""
    body = bytes(range(256)) * 2_000
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(ServiceBusMessage(body))
        (got,) = receiver.receive_messages(max_wait_time=20)
        receiver.complete_message(got)
    assert b"".join(got.body) == body


def test_a_message_over_the_limit_is_refused(client: ServiceBusClient, inside: ServiceBusAdministrationClient) -> None:
    """A message larger than the entity's limit is rejected, and the sender keeps working (B-425)."""
    inside.create_queue("small", max_message_size_in_kilobytes=1)
    with client.get_queue_sender("small") as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(100_000)))
        sender.send_messages(ServiceBusMessage(b"ok"))
    assert inside.get_queue_runtime_properties("small").active_message_count == 1


def test_a_scheduled_message_waits_for_its_time(
    client: ServiceBusClient, queue: str, inside: ServiceBusAdministrationClient
) -> None:
    """A message with a scheduled time is not active before it (B-232)."""
    due = datetime.now(UTC) + timedelta(hours=1)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(b"later", scheduled_enqueue_time_utc=due))
    counts = inside.get_queue_runtime_properties(queue)
    assert (counts.scheduled_message_count, counts.active_message_count) == (1, 0)


def test_keys_that_differ_are_refused(client: ServiceBusClient, queue: str) -> None:
    """A message whose session id and partition key differ is rejected (B-064, B-439)."""
    message = AmqpAnnotatedMessage(
        data_body=b"x", properties={"group_id": "one"}, annotations={"x-opt-partition-key": "two"}
    )
    with (
        client.get_queue_sender(queue) as sender,
        pytest.raises(ServiceBusError, match="session_id and partition_key are both set and differ"),
    ):
        sender.send_messages(message)


def test_a_topic_sends_a_copy_to_its_subscriptions(
    client: ServiceBusClient, inside: ServiceBusAdministrationClient, entity_options: dict[str, Any]
) -> None:
    """A message sent to a topic is received from each subscription with a matching rule."""
    inside.create_topic("events", **entity_options)
    inside.create_subscription("events", "all")
    inside.create_subscription("events", "none")
    inside.delete_rule("events", "none", "$Default")
    with client.get_topic_sender("events") as sender:
        sender.send_messages(ServiceBusMessage(b"news", application_properties={"kind": 3}))
    with client.get_subscription_receiver("events", "all") as receiver:
        (got,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(got)
    assert b"".join(got.body) == b"news"
    assert inside.get_subscription_runtime_properties("events", "none").active_message_count == 0


def test_a_topic_that_is_missing_is_an_error(client: ServiceBusClient) -> None:
    """The token for a missing entity is rejected, as in the service (B-419)."""
    with pytest.raises(ServiceBusError) as refused, client.get_topic_sender("missing") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    assert not isinstance(refused.value, MessagingEntityNotFoundError)


def test_a_program_in_process_receives_messages_of_an_sdk(client: ServiceBusClient, queue: str, bus: Namespace) -> None:
    """Values of types that only AMQP has appear as the closest Python type; several sections appear joined."""
    message = AmqpAnnotatedMessage(data_body=[b"one", b"two"], application_properties={"int": 5, "text": "t"})
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(message)
    with oxbus.ServiceBusClient(bus) as in_process, in_process.get_queue_receiver(queue) as receiver:
        (got,) = receiver.receive_messages(max_wait_time=0)
    assert bytes(got) == b"onetwo"
    assert got.application_properties == {"int": 5, "text": "t"}
