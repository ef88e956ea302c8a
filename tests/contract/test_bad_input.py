# SPDX-License-Identifier: Apache-2.0
"""Bad input raises the SDK's exception with a helpful text, and changes nothing.

Each test takes a snapshot (counts, and every message of the queue and its dead-letter queue) before and after.
Options of queues and their ranges are in test_entity.py.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import AutoLockRenewer, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import (
    InvalidOperationError,
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

KEYS_LIMITED = ("message_id", "session_id", "partition_key", "reply_to_session_id")
WORDS_THAT_HELP = re.compile(
    r"\b(ask|call|change|check|choose|create|drain|get|give|hash|leave|look|make|must|open|peek|receive|retry|send|set"
    r"|settle|shorten|split|take|use|wait)\b",
    re.IGNORECASE,
)


@pytest.fixture
def filled_queue(sender: ServiceBusSender, queue_name: str) -> str:
    """A queue with three messages."""
    for number in range(3):
        sender.send_messages(ServiceBusMessage(str(number)))
    return queue_name


def assert_helpful(error: BaseException) -> None:
    """The error text explains what to do."""
    text = str(error)
    assert len(text.split()) >= 4, text
    assert WORDS_THAT_HELP.search(text), text


@pytest.mark.parametrize("name", ["nowhere", "orders2", "orders/sub"])
def test_unknown_entity(
    client: ServiceBusClient, filled_queue: str, snapshot: Callable[[str], object], name: str
) -> None:
    """Sending to or receiving from an unknown queue is a not-found error with its name (B-019)."""
    before = snapshot(filled_queue)
    with pytest.raises(MessagingEntityNotFoundError, match=name) as refusal, client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    assert_helpful(refusal.value)
    with pytest.raises(MessagingEntityNotFoundError, match=name), client.get_queue_receiver(name) as receiver:
        receiver.receive_messages(max_wait_time=0)
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("value", ["x" * 129, "ä" * 129, "x" * 100_000], ids=["129", "129 two-byte", "100000"])
@pytest.mark.parametrize("name", KEYS_LIMITED)
def test_key_over_128_characters(name: str, value: Any) -> None:
    """A key or id of more than 128 characters is a ValueError when it is set, in both ways of setting it (B-047)."""
    with pytest.raises(ValueError, match=f"{name}.*128") as refusal:
        ServiceBusMessage(b"x", **{name: value})
    assert_helpful(refusal.value)
    message = ServiceBusMessage(b"x")
    with pytest.raises(ValueError, match=f"{name}.*128"):
        setattr(message, name, value)
    assert getattr(message, name) is None


@pytest.mark.parametrize("value", ["x" * 128, "ä" * 128, "鍵" * 128], ids=["ascii", "two bytes", "three bytes"])
@pytest.mark.parametrize("name", KEYS_LIMITED)
def test_key_of_128_characters(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    name: str,
    value: Any,
) -> None:
    """The limit counts characters, not bytes, and 128 are fine (B-047, B-070)."""
    sender.send_messages(ServiceBusMessage(b"x", **{name: value}))
    assert getattr(receive_one(receiver), name) == value


@pytest.mark.parametrize("name", [*KEYS_LIMITED, "subject", "to", "reply_to", "content_type", "correlation_id"])
@pytest.mark.parametrize("value", [1, b"bytes", 1.5, ["x"]], ids=repr)
def test_text_property_of_wrong_type(
    sender: ServiceBusSender, filled_queue: str, snapshot: Callable[[str], object], name: str, value: Any
) -> None:
    """A text property of another type is a TypeError, at the latest when it is sent (B-047)."""
    before = snapshot(filled_queue)
    with pytest.raises(TypeError):
        sender.send_messages(ServiceBusMessage(b"x", **{name: value}))
    assert snapshot(filled_queue) == before


def test_message_over_the_limit(
    client: ServiceBusClient, make_queue: Callable[..., str], snapshot: Callable[[str], object]
) -> None:
    """A message over the queue's limit is refused, and the error names the limit (B-055)."""
    queue_name = make_queue("limited", max_message_size_in_kilobytes=1024)
    before = snapshot(queue_name)
    with client.get_queue_sender(queue_name) as sender:
        for body, properties in ((b"x" * 1024 * 1024, {}), (b"x" * 1_000_000, {"p": "y" * 60_000})):
            with pytest.raises(MessageSizeExceededError, match=r"\d") as refusal:
                sender.send_messages(ServiceBusMessage(body, application_properties=properties))
            assert_helpful(refusal.value)
            assert isinstance(refusal.value, ValueError)
            assert refusal.value.condition == "amqp:link:message-size-exceeded"
        assert snapshot(queue_name) == before
        sender.send_messages(ServiceBusMessage(b"x" * 1_000_000))


def test_settling_a_foreign_message(
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    filled_queue: str,
    receiver: ServiceBusReceiver,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    snapshot: Callable[[str], object],
) -> None:
    """A message of another queue is lock lost and neither queue changes (B-170)."""
    other = make_queue("other")
    message = receive_one(receiver)
    before = snapshot(filled_queue), snapshot(other)
    with client.get_queue_receiver(other) as stranger, pytest.raises(MessageLockLostError) as refusal:
        stranger.complete_message(message)
    assert_helpful(refusal.value)
    assert (snapshot(filled_queue), snapshot(other)) == before
    receiver.complete_message(message)


def test_settling_a_message_of_another_namespace(
    open_namespace: Callable[..., Namespace],
    filled_queue: str,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    partitioned: bool,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """The same queue name in another namespace is another queue (B-170)."""
    namespace = open_namespace(clock=clock)
    ServiceBusAdministrationClient(namespace).create_queue(filled_queue, enable_partitioning=partitioned)
    message = receive_one(receiver)
    with ServiceBusClient(namespace) as stranger:
        with stranger.get_queue_sender(filled_queue) as sender:
            for _ in range(16):
                sender.send_messages(ServiceBusMessage(b"x"))
        with stranger.get_queue_receiver(filled_queue) as other:
            other.receive_messages(max_message_count=16, max_wait_time=0)
            with pytest.raises(MessageLockLostError):
                other.complete_message(message)
    receiver.complete_message(message)


def test_settling_a_stale_message(
    filled_queue: str,
    receiver: ServiceBusReceiver,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
    snapshot: Callable[[str], object],
) -> None:
    """An expired lock is lock lost, a settled message is already settled; nothing changes (B-155, B-160)."""
    stale, settled = receive_one(receiver), receive_one(receiver)
    receiver.abandon_message(settled)
    clock.advance(61)
    before = snapshot(filled_queue)
    with pytest.raises(MessageLockLostError) as lost:
        receiver.complete_message(stale)
    with pytest.raises(MessageAlreadySettled) as again:
        receiver.complete_message(settled)
    assert_helpful(lost.value)
    assert_helpful(again.value)
    assert snapshot(filled_queue) == before


def test_sending_on_a_closed_sender(
    client: ServiceBusClient, filled_queue: str, clock: ManualClock, snapshot: Callable[[str], object]
) -> None:
    """Every call of a closed sender is a ValueError as in the SDK; closing twice has no effect (B-174)."""
    before = snapshot(filled_queue)
    sender = client.get_queue_sender(filled_queue)
    batch = sender.create_message_batch()
    batch.add_message(ServiceBusMessage(b"x"))
    sender.close()
    sender.close()
    for call in (
        lambda: sender.send_messages(ServiceBusMessage(b"x")),
        lambda: sender.send_messages([ServiceBusMessage(b"x")]),
        lambda: sender.send_messages(batch),
        lambda: sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1)),
        lambda: sender.cancel_scheduled_messages(1),
        sender.create_message_batch,
        sender.__enter__,
    ):
        with pytest.raises(ValueError, match=r"(?i)(closed|shutdown)") as refusal:
            call()
    assert_helpful(refusal.value)
    assert snapshot(filled_queue) == before


def test_closing_the_client_closes_its_handles(client: ServiceBusClient, filled_queue: str) -> None:
    """Senders and receivers of a closed client are closed (B-139)."""
    sender, receiver = client.get_queue_sender(filled_queue), client.get_queue_receiver(filled_queue)
    client.close()
    with pytest.raises(ValueError, match=r"(?i)(closed|shutdown)"):
        sender.send_messages(ServiceBusMessage(b"x"))
    with pytest.raises(ValueError, match=r"(?i)(closed|shutdown)"):
        receiver.receive_messages(max_wait_time=0)


def test_session_id_unlike_partition_key_when_setting() -> None:
    """Setting a partition key other than the session id is a ValueError as in the SDK (B-064)."""
    with pytest.raises(ValueError, match="partition_key") as refusal:
        ServiceBusMessage(b"x", session_id="s", partition_key="p")
    assert_helpful(refusal.value)
    message = ServiceBusMessage(b"x", session_id="s")
    with pytest.raises(ValueError, match="partition_key"):
        message.partition_key = "p"
    assert message.partition_key is None


def test_session_id_unlike_partition_key_when_sending(
    sender: ServiceBusSender, filled_queue: str, snapshot: Callable[[str], object], with_two_keys: Callable[..., object]
) -> None:
    """Sending a message with two keys is an invalid operation, alone or in a batch (B-064, B-439)."""
    before = snapshot(filled_queue)
    for payload in (
        lambda message: message,
        lambda message: [message],
        lambda message: [ServiceBusMessage(b"x", session_id="s"), message],
    ):
        with pytest.raises(InvalidOperationError) as refusal:
            with_two_keys(lambda message, payload=payload: sender.send_messages(payload(message)))
        assert refusal.value.condition == "amqp:not-allowed"
        assert not refusal.value.is_transient
        assert_helpful(refusal.value)
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("wait", [-1, -0.001, float("nan"), float("-inf")], ids=repr)
def test_negative_wait(
    client: ServiceBusClient,
    receiver: ServiceBusReceiver,
    filled_queue: str,
    snapshot: Callable[[str], object],
    wait: float,
) -> None:
    """A negative wait is a ValueError for the call and for the receiver (B-132)."""
    before = snapshot(filled_queue)
    with pytest.raises(ValueError, match="max_wait_time") as refusal:
        receiver.receive_messages(max_wait_time=wait)
    assert_helpful(refusal.value)
    with pytest.raises(ValueError, match="max_wait_time"):
        client.get_queue_receiver(filled_queue, max_wait_time=wait)
    with pytest.raises(ValueError, match="max_wait_time"):
        receiver.receive_arrow(max_message_count=1, max_wait_time=wait)
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("wait", ["1", b"1", [1]], ids=repr)
def test_wait_of_wrong_type(receiver: ServiceBusReceiver, wait: Any) -> None:
    """A wait that is not a number is a TypeError (B-132)."""
    with pytest.raises(TypeError):
        receiver.receive_messages(max_wait_time=wait)


@pytest.mark.parametrize("timeout", [0, -1, -0.5])
def test_timeout_below_zero(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    filled_queue: str,
    snapshot: Callable[[str], object],
    timeout: float,
) -> None:
    """A timeout of zero or less is a ValueError as in the SDK (B-091)."""
    before = snapshot(filled_queue)
    for call in (
        lambda: sender.send_messages(ServiceBusMessage(b"x"), timeout=timeout),
        lambda: receiver.receive_deferred_messages(1, timeout=timeout),
        lambda: receiver.peek_messages(timeout=timeout),
    ):
        with pytest.raises(ValueError, match="timeout"):
            call()
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("payload", [None, "text", b"bytes", 1, ..., ["text"], [None]], ids=repr)
def test_sending_something_else(
    sender: ServiceBusSender, filled_queue: str, snapshot: Callable[[str], object], payload: Any
) -> None:
    """Only messages, lists of messages and batches can be sent; anything else is a TypeError (B-079)."""
    before = snapshot(filled_queue)
    with pytest.raises(TypeError):
        sender.send_messages(payload)
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("body", [1, 1.5, ..., ["x"], {"a": 1}], ids=repr)
def test_body_of_wrong_type(body: Any) -> None:
    """A body is text, bytes or None; anything else is a TypeError as in the SDK (B-428)."""
    with pytest.raises(TypeError, match="body"):
        ServiceBusMessage(body)


@pytest.mark.parametrize(
    "properties", ["text", {1: "number as name"}, {"a": ...}, {"a": [1]}, {"a": {"b": 1}}, {"a": 1 << 70}], ids=repr
)
def test_bad_application_properties(
    sender: ServiceBusSender, filled_queue: str, snapshot: Callable[[str], object], properties: Any
) -> None:
    """An unsupported property name or value is refused, at the latest when it is sent (B-429)."""
    before = snapshot(filled_queue)
    with pytest.raises((TypeError, ValueError)):
        sender.send_messages(ServiceBusMessage(b"x", application_properties=properties))
    assert snapshot(filled_queue) == before


@pytest.mark.parametrize("mode", ["peek", "", 1, ...], ids=repr)
def test_unknown_receive_mode(client: ServiceBusClient, queue_name: str, mode: Any) -> None:
    """A receive mode that does not exist is refused (B-146)."""
    with pytest.raises((TypeError, ValueError)):
        client.get_queue_receiver(queue_name, receive_mode=mode)


@pytest.mark.parametrize("sub_queue", ["dead", "", 1], ids=repr)
def test_unknown_sub_queue(client: ServiceBusClient, queue_name: str, sub_queue: Any) -> None:
    """A sub-queue that does not exist is refused (B-020)."""
    with pytest.raises((TypeError, ValueError)):
        client.get_queue_receiver(queue_name, sub_queue=sub_queue)


def test_renewer_needs_locks(client: ServiceBusClient, queue_name: str) -> None:
    """A lock renewer for a receiver without locks is a ValueError as in the SDK (B-147)."""
    with AutoLockRenewer() as renewer, pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
        client.get_queue_receiver(
            queue_name, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, auto_lock_renewer=renewer
        )


def test_unknown_option(client: ServiceBusClient, queue_name: str) -> None:
    """An unknown option is a TypeError (B-133)."""
    misspelt: dict[str, Any] = {"prefetch": 5, "tiemout": 5}
    with pytest.raises(TypeError, match="prefetch"):
        client.get_queue_receiver(queue_name, **misspelt)
    with pytest.raises(TypeError, match=r"(tiemout|prefetch)"), client.get_queue_sender(queue_name) as sender:
        sender.send_messages(ServiceBusMessage(b"x"), **misspelt)


@pytest.mark.parametrize("partition_id", [-1, 16, 1000])
def test_fault_in_a_partition_that_does_not_exist(namespace: Namespace, partition_id: int) -> None:
    """Faults need a partition of the namespace (B-060)."""
    with pytest.raises(ValueError, match="partition"):
        inject_fault(namespace, partition_id, "unavailable")
    with pytest.raises(ValueError, match="partition"):
        heal(namespace, partition_id)


def test_unknown_fault(namespace: Namespace) -> None:
    """An unknown fault is a ValueError that lists the known ones (api: test kit)."""
    with pytest.raises(ValueError, match="unavailable"):
        inject_fault(namespace, 0, "flood")


def test_errors_say_whether_to_retry(receiver: ServiceBusReceiver, admin: ServiceBusAdministrationClient) -> None:
    """Every error has a condition and shows whether a retry can help (B-434, B-437)."""
    with pytest.raises(MessageNotFoundError) as missing:
        receiver.receive_deferred_messages(12345)
    with pytest.raises(MessagingEntityNotFoundError) as unknown:
        admin.get_queue("nowhere")
    for error in (missing.value, unknown.value):
        assert isinstance(error, ServiceBusError)
        assert isinstance(error.condition, str)
        assert error.is_transient is False
        assert_helpful(error)
