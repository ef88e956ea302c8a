# SPDX-License-Identifier: Apache-2.0
"""Properties and bodies of messages, sent and received (B-047, B-067, B-428, B-429, R-06)."""

from __future__ import annotations

import gc
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceivedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

TEXTS: dict[str, Any] = {
    "message_id": "id-1",
    "session_id": "s",
    "partition_key": "s",
    "subject": "a subject",
    "correlation_id": "c-1",
    "content_type": "application/json",
    "to": "somewhere",
    "reply_to": "here",
    "reply_to_session_id": "there",
}

PROPERTY_VALUES: dict[str, Any] = {
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -1,
    "large": 2**63 - 1,
    "smallest": -(2**63),
    "float": 1.5,
    "tiny": 5e-324,
    "infinite": float("inf"),
    "text": "text",
    "empty text": "",
    "unicode": "schlüssel 鍵 🔑",
    "bytes": b"\x00\xff",
    "empty bytes": b"",
    "none": None,
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "time": datetime(2013, 1, 1, 5, 15, 0, 250_000, tzinfo=UTC),
}

BODIES: dict[str, Any] = {
    "bytes": b"\x00\x01\xff",
    "empty": b"",
    "text": "schlüssel 鍵",
    "large": bytes(range(256)) * 4000,
    "line ends": b"a\r\nb\nc\x00",
}


@pytest.fixture
def exchange(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> Callable[[ServiceBusMessage], ServiceBusReceivedMessage]:
    """Send a message and receive it."""

    def exchange(message: ServiceBusMessage) -> ServiceBusReceivedMessage:
        sender.send_messages(message)
        return receive_one(receiver)

    return exchange


@pytest.mark.parametrize("name", TEXTS)
def test_text_property_can_be_given_or_set(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], name: str
) -> None:
    """Every text property can be set as an option and as an attribute and is received unchanged (B-077, R-06)."""
    given = ServiceBusMessage(b"x", **{name: TEXTS[name]})
    assigned = ServiceBusMessage(b"x")
    setattr(assigned, name, TEXTS[name])
    for message in (given, assigned):
        assert getattr(message, name) == TEXTS[name]
        assert getattr(exchange(message), name) == TEXTS[name]


def test_everything_at_once(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], clock: ManualClock
) -> None:
    """A message with all properties is received with all of them (R-06)."""
    received = exchange(
        ServiceBusMessage("body", application_properties=PROPERTY_VALUES, time_to_live=timedelta(hours=2), **TEXTS)
    )
    assert isinstance(received, ServiceBusReceivedMessage)
    assert {name: getattr(received, name) for name in TEXTS} == TEXTS
    assert received.application_properties == PROPERTY_VALUES
    assert received.time_to_live == timedelta(hours=2)
    assert str(received) == "body"
    assert received.state == ServiceBusMessageState.ACTIVE
    assert received.enqueued_time_utc == clock.now()


def test_message_without_anything(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """Properties that were not set are None when received, except the message id (B-067)."""
    received = exchange(ServiceBusMessage(b"x"))
    unset = [name for name in TEXTS if name != "message_id"]
    assert {name: getattr(received, name) for name in unset} == dict.fromkeys(unset)
    assert not received.application_properties
    assert received.time_to_live is None
    assert received.scheduled_enqueue_time_utc is None
    assert received.expires_at_utc is None
    assert received.dead_letter_reason is None


def test_sender_assigns_a_message_id(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """A message without an id gets a unique one when it is sent (B-067)."""
    for _ in range(50):
        sender.send_messages(ServiceBusMessage(b"x"))
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(50)])
    ids = [message.message_id for message in drain(receiver)]
    assert len(set(ids)) == 100
    assert all(isinstance(text, str) and 0 < len(text) <= 128 for text in ids)


@pytest.mark.parametrize("name", PROPERTY_VALUES)
def test_application_property_keeps_value_and_type(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], name: str
) -> None:
    """Each property value is received equal and of the same type, under its text name (B-429, R-06)."""
    value = PROPERTY_VALUES[name]
    received = exchange(ServiceBusMessage(b"x", application_properties={name: value}))
    properties = received.application_properties or {}
    assert properties == {name: value}
    assert type(properties[name]) is type(value)
    assert [type(key) for key in properties] == [str]


def test_application_properties_keep_their_order(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage],
) -> None:
    """Properties are received in the order they were set (R-06)."""
    names = [f"p{number}" for number in (5, 3, 9, 1, 7)]
    received = exchange(ServiceBusMessage(b"x", application_properties=dict.fromkeys(names, 0)))
    assert list(received.application_properties or {}) == names


def test_property_names_may_be_bytes(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """A name given as bytes is received as text (B-429)."""
    properties: Any = {b"name": 1}
    received = exchange(ServiceBusMessage(b"x", application_properties=properties))
    assert received.application_properties == {"name": 1}


@pytest.mark.parametrize("name", BODIES)
def test_body_comes_back_unchanged(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], name: str
) -> None:
    """Text and bytes of any content are received as the same bytes (B-428, R-06)."""
    body = BODIES[name]
    message = ServiceBusMessage(body)
    expected = body if isinstance(body, bytes) else body.encode()
    assert b"".join(message.body) == expected
    received = exchange(message)
    assert b"".join(received.body) == expected
    assert b"".join(received.body) == expected, "a body can be read twice"
    assert received.body_type == message.body_type
    if isinstance(body, str):
        assert str(received) == body


def test_message_without_a_body(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """A body of None is a value body as in the SDK, not empty bytes (B-428)."""
    message = ServiceBusMessage(None)
    received = exchange(message)
    for end in (message, received):
        body: Any = end.body
        assert body is None
    assert received.body_type == message.body_type != ServiceBusMessage(b"").body_type


def test_setting_back_to_none() -> None:
    """Every property of an outgoing message can be cleared (B-047)."""
    message = ServiceBusMessage(b"x", application_properties={"a": 1}, time_to_live=timedelta(seconds=5), **TEXTS)
    message.scheduled_enqueue_time_utc = datetime(2030, 1, 1, tzinfo=UTC)
    for name in (*reversed(TEXTS), "application_properties", "time_to_live", "scheduled_enqueue_time_utc"):
        setattr(message, name, None)
        assert getattr(message, name) is None


@pytest.mark.parametrize(
    "life", [timedelta(seconds=1), timedelta(hours=1), timedelta(days=14), timedelta(days=3650)], ids=str
)
def test_time_to_live_is_kept(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], life: timedelta
) -> None:
    """A time to live is received as it was set (B-246)."""
    message = ServiceBusMessage(b"x", time_to_live=life)
    assert message.time_to_live == life
    assert exchange(message).time_to_live == life


@pytest.mark.parametrize(
    "name", [*TEXTS, "application_properties", "time_to_live", "sequence_number", "delivery_count", "lock_token"]
)
def test_received_message_is_frozen(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], name: str
) -> None:
    """A received message cannot be changed (B-175)."""
    received = exchange(ServiceBusMessage(b"x", **TEXTS))
    before = getattr(received, name)
    with pytest.raises(AttributeError):
        setattr(received, name, None)
    assert getattr(received, name) == before


def test_properties_of_a_sent_message_are_copied(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, receive_one: Callable[..., ServiceBusReceivedMessage]
) -> None:
    """Changing a message or its property dict after the send changes nothing in the queue (R-05, R-06)."""
    properties: dict[str, Any] = {"a": 1}
    message = ServiceBusMessage(b"x", application_properties=properties, subject="before")
    sender.send_messages(message)
    properties["a"] = 2
    message.subject = "after"
    received = receive_one(receiver)
    assert (received.application_properties, received.subject) == ({"a": 1}, "before")


def test_repr_shows_what_matters(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """The repr has the class, id and number, and at most 1,024 characters (B-103)."""
    message = ServiceBusMessage(b"x", message_id="id-1")
    received = exchange(message)
    assert repr(message).startswith("ServiceBusMessage(")
    assert repr(received).startswith("ServiceBusReceivedMessage(")
    assert "id-1" in repr(message)
    assert str(received.sequence_number) in repr(received)
    assert len(repr(ServiceBusMessage(b"x" * 100_000))) <= 1024
    assert len(repr(exchange(ServiceBusMessage(b"x" * 100_000)))) <= 1024


@pytest.mark.parametrize("is_received", [False, True])
def test_body_is_an_iterator_of_one_part(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage], *, is_received: bool
) -> None:
    """Each read of `body` makes an iterator of its own, which gives the bytes once and then stays at its end."""
    message = ServiceBusMessage(b"part")
    if is_received:
        message = exchange(message)
    body = message.body
    assert iter(body) is body
    assert next(body) == b"part"
    assert next(body, None) is None
    assert next(body, None) is None
    assert b"".join(message.body) == b"part"
    assert [bytes(part) for part in message.body] == [b"part"]
    assert type(next(message.body)) is bytes
    with pytest.raises(TypeError, match="cannot create"):
        type(body)()


def test_threads_share_an_iterator_of_a_body(
    exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage],
) -> None:
    """Of many threads that read from one iterator, exactly one gets the part."""
    received = exchange(ServiceBusMessage(b"part"))
    with ThreadPoolExecutor(8) as threads:
        for _ in range(50):
            body = received.body
            parts = list(threads.map(lambda _: next(body, None), range(16)))  # noqa: B023
            assert sorted(part for part in parts if part is not None) == [b"part"]


def test_bodies_of_a_list_are_read_in_any_order(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
    """Reading a body hints at a later message of its list, which may be settled, released, or longer."""
    bodies = [bytes([number]) * (number * 97 % 5000) for number in range(200)]
    sender.send_messages([ServiceBusMessage(body) for body in bodies])
    received: list[ServiceBusReceivedMessage] = []
    while len(received) < len(bodies):
        received += receiver.receive_messages(len(bodies), max_wait_time=5)
    by_number = sorted(received, key=lambda message: message.sequence_number)
    assert sorted(b"".join(message.body) for message in by_number) == sorted(bodies)
    kept = received[::2]
    receiver.complete_messages(received)
    del received, by_number
    gc.collect()
    sender.send_messages([ServiceBusMessage(b"later" * 500) for _ in range(200)])
    assert {b"".join(message.body) for message in reversed(kept)} <= set(bodies)


def test_received_body_is_a_buffer(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """A memoryview of the body is read-only, makes no copy, and outlives the message object (R-06)."""
    body = bytes(range(256)) * 300
    received = exchange(ServiceBusMessage(body, subject="a subject"))
    view = memoryview(received)
    assert (view.nbytes, view.format, view.readonly) == (len(body), "B", True)
    del received
    assert view == body
    assert bytes(view[-3:]) == body[-3:]
    with pytest.raises(TypeError):
        view[0] = 1


def test_missing_body_is_no_buffer(exchange: Callable[[ServiceBusMessage], ServiceBusReceivedMessage]) -> None:
    """A message without a body has no buffer."""
    assert memoryview(exchange(ServiceBusMessage(b""))).nbytes == 0
    with pytest.raises(BufferError, match="no body"):
        memoryview(exchange(ServiceBusMessage(None)))


def test_received_message_cannot_be_made_by_hand() -> None:
    """Only a receiver creates received messages (B-175)."""
    with pytest.raises(TypeError):
        ServiceBusReceivedMessage(b"x")


def test_big_and_small_messages_together(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> None:
    """Bodies from 0 bytes to 1 MB in one queue are received whole (B-053, R-06)."""
    sizes = [0, 1, 15, 16, 17, 255, 256, 4095, 65_536, 1_000_000]
    for size in sizes:
        sender.send_messages(ServiceBusMessage(bytes([size % 251]) * size, message_id=str(size)))
    received = {message.message_id: b"".join(message.body) for message in drain(receiver)}
    assert received == {str(size): bytes([size % 251]) * size for size in sizes}
